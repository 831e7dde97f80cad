package io.tidemill.bridge;

import java.nio.ByteBuffer;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.util.Collector;

/**
 * Turns a whole Kafka record into one record frame.
 *
 * <p>PyFlink's own schemas hand on the value only: without the key, headers, partition, offset and
 * timestamp no record could be named, answered, dead-lettered or found late.
 */
public final class RecordFrames implements KafkaRecordDeserializationSchema<byte[]> {
    private static final long serialVersionUID = 1L;

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<byte[]> out) {
        out.collect(encode(record));
    }

    static byte[] encode(ConsumerRecord<byte[], byte[]> record) {
        byte[] key = record.key();
        byte[] value = record.value();
        byte[] headers = HeaderCodec.encode(record.headers().toArray());
        int keyLength = Frames.lengthOf(key);
        int valueLength = Frames.lengthOf(value);
        ByteBuffer frame = Frames.allocate((long) Frames.RECORD_HEADER_BYTES
                + Frames.bytesOf(keyLength) + headers.length + Frames.bytesOf(valueLength));
        frame.putLong(record.timestamp()).putInt(record.partition()).putLong(record.offset());
        frame.putInt(keyLength).putInt(headers.length).putInt(valueLength);
        Frames.putNullable(frame, key);
        frame.put(headers);
        Frames.putNullable(frame, value);
        return frame.array();
    }

    @Override
    public TypeInformation<byte[]> getProducedType() {
        return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    }
}
