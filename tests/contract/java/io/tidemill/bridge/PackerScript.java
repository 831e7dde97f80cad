package io.tidemill.bridge;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.runtime.event.WatermarkEvent;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.RecordAttributes;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;
import org.apache.flink.util.OutputTag;

/** Drives a BatchPacker by a script and tells all that leaves it, in order. */
final class PackerScript extends BatchPacker {
    private static final long serialVersionUID = 1L;

    private final transient ManualTime time = new ManualTime();
    private final transient List<String> events = new ArrayList<>();

    private PackerScript(int maxRows, long lingerMs, int maxBytes) throws Exception {
        super(maxRows, lingerMs, maxBytes);
        output = new Recorder(events);
        processingTimeService = time;
        reset();
    }

    /** maxRows, lingerMs, maxBytes, then record:x.. watermark:ms advance:ms barrier idle finish. */
    static List<String> run(List<String> words) throws Exception {
        PackerScript packer = new PackerScript(Integer.parseInt(words.get(0)),
                Long.parseLong(words.get(1)), Integer.parseInt(words.get(2)));
        for (String word : words.subList(3, words.size())) {
            packer.step(word.split(":"));
        }
        return packer.events;
    }

    private void step(String[] word) throws Exception {
        switch (word[0]) {
            case "record" -> processElement(new StreamRecord<>(Tokens.bytes(word[1])));
            case "watermark" -> processWatermark(new Watermark(Long.parseLong(word[1])));
            case "advance" -> time.advance(Long.parseLong(word[1]));
            case "idle" -> processWatermarkStatus(WatermarkStatus.IDLE);
            case "finish" -> finish();
            case "barrier" -> {
                prepareSnapshotPreBarrier(1);
                events.add("barrier");
            }
            default -> throw new IllegalArgumentException(word[0]);
        }
    }

    private record Recorder(List<String> events) implements Output<StreamRecord<byte[]>> {
        @Override
        public void collect(StreamRecord<byte[]> frame) {
            events.add(Tokens.token(frame.getValue()));
        }

        @Override
        public void emitWatermark(Watermark mark) {
            events.add("watermark:" + mark.getTimestamp());
        }

        @Override
        public void emitWatermarkStatus(WatermarkStatus status) {
            events.add(status.isIdle() ? "idle" : "active");
        }

        @Override
        public <X> void collect(OutputTag<X> tag, StreamRecord<X> record) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void emitLatencyMarker(LatencyMarker marker) {}

        @Override
        public void emitRecordAttributes(RecordAttributes attributes) {}

        @Override
        public void emitWatermark(WatermarkEvent event) {}

        @Override
        public void close() {}
    }
}
