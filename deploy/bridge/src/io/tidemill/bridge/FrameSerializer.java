package io.tidemill.bridge;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Turns an out frame of one row into a Kafka record with its key, headers and timestamp.
 *
 * <p>A null key or value stays null: an empty one would land on one partition, or would not be a
 * tombstone. The partition is left to the producer, which places keys as other Java clients do.
 */
public final class FrameSerializer implements KafkaRecordSerializationSchema<byte[]> {
    private static final long serialVersionUID = 1L;

    private final String topic;

    public FrameSerializer(String topic) {
        this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
            byte[] frame, KafkaSinkContext context, Long timestamp) {
        return record(frame);
    }

    ProducerRecord<byte[], byte[]> record(byte[] frame) {
        OutFrame row = new OutFrame(frame);
        if (row.rows != 1) {
            throw new FrameFormatException(
                    "out frame TMO1", "1 row (unpack it first)", row.rows + " rows");
        }
        Long timestamp = row.timestamp() < 0 ? null : row.timestamp();
        return new ProducerRecord<>(
                topic, null, timestamp, row.key(), row.value(), HeaderCodec.decode(row.headers()));
    }
}
