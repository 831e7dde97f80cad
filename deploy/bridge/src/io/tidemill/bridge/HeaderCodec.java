package io.tidemill.bridge;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.Header;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.internals.RecordHeader;

/**
 * Headers as one blob: u16 count, then for each u16 name length, name (utf-8), i32 value length (-1
 * is null), value. Order and duplicates are kept.
 */
final class HeaderCodec {
    /** What u16 can count, less room for those that the job adds to a record. */
    static final int MAX_HEADERS = 0xFFFF - 0xFF;

    static final int MAX_NAME_BYTES = 0xFFFF;

    /**
     * Stands in for headers that are over the limits, with their count as its value. An exception
     * instead would let one strange record stop the job at every restart.
     */
    static final String DROPPED = "x-bridge.dropped-headers";

    private static final int COUNT_BYTES = 2;
    private static final int NAME_LENGTH_BYTES = 2;
    private static final int VALUE_LENGTH_BYTES = 4;

    private HeaderCodec() {}

    static byte[] encode(Header[] headers) {
        if (headers.length > MAX_HEADERS) {
            return dropped(headers);
        }
        byte[][] names = new byte[headers.length][];
        long size = COUNT_BYTES;
        for (int i = 0; i < headers.length; i++) {
            names[i] = headers[i].key().getBytes(StandardCharsets.UTF_8);
            if (names[i].length > MAX_NAME_BYTES) {
                return dropped(headers);
            }
            int valueBytes = Frames.bytesOf(Frames.lengthOf(headers[i].value()));
            size += NAME_LENGTH_BYTES + names[i].length + VALUE_LENGTH_BYTES + valueBytes;
        }
        ByteBuffer blob = Frames.allocate(size);
        blob.putShort((short) headers.length);
        for (int i = 0; i < headers.length; i++) {
            byte[] value = headers[i].value();
            blob.putShort((short) names[i].length).put(names[i]).putInt(Frames.lengthOf(value));
            Frames.putNullable(blob, value);
        }
        return blob.array();
    }

    static List<Header> decode(ByteBuffer blob) {
        blob.order(ByteOrder.LITTLE_ENDIAN);
        try {
            int count = Short.toUnsignedInt(blob.getShort());
            List<Header> headers = new ArrayList<>(Math.min(count, blob.remaining()));
            for (int i = 0; i < count; i++) {
                byte[] name = take(blob, Short.toUnsignedInt(blob.getShort()));
                byte[] value = take(blob, blob.getInt());
                headers.add(new RecordHeader(new String(name, StandardCharsets.UTF_8), value));
            }
            if (blob.hasRemaining()) {
                throw malformed(blob, count + " headers and no byte more");
            }
            return headers;
        } catch (BufferUnderflowException e) {
            throw malformed(blob, "a whole header");
        }
    }

    private static byte[] take(ByteBuffer blob, int length) {
        if (length == Frames.NULL) {
            return null;
        }
        if (length < 0 || length > blob.remaining()) {
            throw malformed(blob, "a length within the blob, not " + length);
        }
        byte[] bytes = new byte[length];
        blob.get(bytes);
        return bytes;
    }

    private static byte[] dropped(Header[] headers) {
        byte[] count = Integer.toString(headers.length).getBytes(StandardCharsets.US_ASCII);
        return encode(new Header[] {new RecordHeader(DROPPED, count)});
    }

    private static FrameFormatException malformed(ByteBuffer blob, String expected) {
        return new FrameFormatException(
                "headers of " + blob.limit() + " bytes", expected, "byte " + blob.position());
    }
}
