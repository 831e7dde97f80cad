package io.tidemill.bridge;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.flink.api.common.functions.util.ListCollector;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.Header;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.record.TimestampType;

/** The bridge's classes for tests in Python: one command a line, one line of answer. */
public final class CodecProbe {
    private CodecProbe() {}

    public static void main(String[] args) throws Exception {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) {
        try {
            List<String> arguments = Arrays.asList(words).subList(1, words.length);
            return String.join(" ", run(words[0], arguments));
        } catch (Exception e) {
            return "!" + e.getClass().getSimpleName() + " " + e.getMessage();
        }
    }

    private static List<String> run(String command, List<String> arguments) throws Exception {
        return switch (command) {
            case "record" -> List.of(Tokens.token(RecordFrames.encode(record(arguments))));
            case "serialize" -> serialize(arguments.get(0), Tokens.bytes(arguments.get(1)));
            case "pack" -> PackerScript.run(arguments);
            case "watermarks" -> WatermarkScript.run(arguments);
            case "job" -> PackerJob.run(arguments);
            case "stop" -> StopperJob.run(Tokens.bytes(arguments.get(0)));
            default -> throw new IllegalArgumentException(command);
        };
    }

    /** Timestamp, partition, offset, key, value, then name and value of each header. */
    private static ConsumerRecord<byte[], byte[]> record(List<String> words) {
        RecordHeaders headers = new RecordHeaders();
        for (int i = 5; i < words.size(); i += 2) {
            String name = new String(Tokens.bytes(words.get(i)), StandardCharsets.UTF_8);
            headers.add(name, Tokens.bytes(words.get(i + 1)));
        }
        byte[] key = Tokens.bytes(words.get(3));
        byte[] value = Tokens.bytes(words.get(4));
        return new ConsumerRecord<>("orders", Integer.parseInt(words.get(1)),
                Long.parseLong(words.get(2)), Long.parseLong(words.get(0)),
                TimestampType.CREATE_TIME, ConsumerRecord.NULL_SIZE, ConsumerRecord.NULL_SIZE,
                key, value, headers, Optional.empty());
    }

    /** For each row: topic, timestamp, key, value, number of headers, their names and values. */
    private static List<String> serialize(String topic, byte[] frame) {
        List<byte[]> singles = new ArrayList<>();
        new FrameUnpacker().flatMap(frame, new ListCollector<>(singles));
        List<String> words = new ArrayList<>();
        for (byte[] single : singles) {
            ProducerRecord<byte[], byte[]> record =
                    new FrameSerializer(topic).serialize(single, null, 0L);
            Header[] headers = record.headers().toArray();
            words.add(record.topic());
            words.add(record.timestamp() == null ? "-" : record.timestamp().toString());
            words.add(Tokens.token(record.key()));
            words.add(Tokens.token(record.value()));
            words.add(Integer.toString(headers.length));
            for (Header header : headers) {
                words.add(Tokens.token(header.key().getBytes(StandardCharsets.UTF_8)));
                words.add(Tokens.token(header.value()));
            }
        }
        return words;
    }
}
