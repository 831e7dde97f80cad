package io.tidemill.bridge;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.record.TimestampType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;

/**
 * Runs a BatchPacker in a real Flink task with watermarks and barriers between the records, and
 * tells each frame together with the watermark that was current when it arrived downstream.
 */
final class PackerJob {
    private static final int PARTITIONS = 3;
    private static final long START_MS = 1_000_000;

    private PackerJob() {}

    /** rows, maxRows, lingerMs -> watermark and frame, in turn. */
    static List<String> run(List<String> words) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        env.enableCheckpointing(10);
        env.getConfig().setAutoWatermarkInterval(1);
        var records = env.fromSequence(0, Long.parseLong(words.get(0)) - 1)
                .map(PackerJob::record)
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .assignTimestampsAndWatermarks(GuardedWatermarks.strategy(5, 1000, 0)
                        .withTimestampAssigner((record, none) -> Frames.view(record).getLong(0)));
        BatchPacker packer =
                new BatchPacker(Integer.parseInt(words.get(1)), Long.parseLong(words.get(2)));
        var frames = records.transform(
                "pack", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, packer);
        List<String> told = new ArrayList<>();
        try (CloseableIterator<String> all =
                frames.process(new TellWatermark()).returns(Types.STRING).executeAndCollect()) {
            all.forEachRemaining(told::add);
        }
        return told;
    }

    /** Record {@code i}: every tenth is 20 ms older than its neighbours, so some of them are late. */
    private static byte[] record(long i) {
        long tsMs = START_MS + i - (i % 10 == 9 ? 20 : 0);
        byte[] value = ByteBuffer.allocate(8).putLong(i).array();
        return RecordFrames.encode(new ConsumerRecord<>("orders", (int) (i % PARTITIONS), i, tsMs,
                TimestampType.CREATE_TIME, ConsumerRecord.NULL_SIZE, ConsumerRecord.NULL_SIZE,
                null, value, new RecordHeaders(), Optional.empty()));
    }

    private static final class TellWatermark extends ProcessFunction<byte[], String> {
        private static final long serialVersionUID = 1L;

        @Override
        public void processElement(byte[] frame, Context context, Collector<String> out) {
            long watermarkMs = context.timerService().currentWatermark();
            out.collect(watermarkMs + " " + Tokens.token(frame));
        }
    }
}
