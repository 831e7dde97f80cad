package io.tidemill.bridge;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Record frames of one partition that wait to leave as one batch frame. */
final class FrameBuffer {
    private final int partition;
    private final List<ByteBuffer> records = new ArrayList<>();
    private long rowBytes;
    private long firstArrivalMs;

    FrameBuffer(int partition) {
        this.partition = partition;
    }

    int rows() {
        return records.size();
    }

    boolean isEmpty() {
        return records.isEmpty();
    }

    /** Size of the batch frame if {@code moreRows} with {@code moreBytes} in all were added. */
    long frameBytes(int moreRows, long moreBytes) {
        long columns = (long) Frames.BATCH_ROW_BYTES * (records.size() + moreRows);
        return Frames.padded(Frames.BATCH_HEADER_BYTES + columns) + rowBytes + moreBytes;
    }

    void add(ByteBuffer record, long nowMs) {
        if (records.isEmpty()) {
            firstArrivalMs = nowMs;
        }
        records.add(record);
        rowBytes += rowBytes(record);
    }

    /** The batch frame of all rows; the buffer is empty afterwards. */
    byte[] drain(long watermarkMs) {
        int n = records.size();
        long total = frameBytes(0, 0);
        ByteBuffer frame = Frames.allocate(total);
        frame.putInt(Frames.BATCH_MAGIC).putInt(n).putInt((int) total).putInt(partition);
        frame.putLong(firstArrivalMs).putLong(watermarkMs);
        putLongs(frame, Frames.RECORD_TS);
        putLongs(frame, Frames.RECORD_OFFSET);
        putInts(frame, Frames.RECORD_KEY_LENGTH);
        putInts(frame, Frames.RECORD_HEADERS_LENGTH);
        putInts(frame, Frames.RECORD_VALUE_LENGTH);
        for (ByteBuffer record : records) {
            frame.put((byte) (isLate(record.getLong(Frames.RECORD_TS), watermarkMs) ? 1 : 0));
        }
        frame.position((int) Frames.padded(frame.position()));
        for (ByteBuffer record : records) {
            frame.put(record.array(), Frames.RECORD_HEADER_BYTES, (int) rowBytes(record));
        }
        records.clear();
        rowBytes = 0;
        return frame.array();
    }

    /** A record without a time is not late: it is refused for having none. */
    private static boolean isLate(long tsMs, long watermarkMs) {
        return tsMs > 0 && tsMs <= watermarkMs;
    }

    static long rowBytes(ByteBuffer record) {
        return (long) record.capacity() - Frames.RECORD_HEADER_BYTES;
    }

    /** View of a record frame whose lengths add up. */
    static ByteBuffer checked(byte[] bytes) {
        ByteBuffer record = Frames.view(bytes);
        if (bytes.length < Frames.RECORD_HEADER_BYTES) {
            throw new FrameFormatException("record frame",
                    Frames.RECORD_HEADER_BYTES + " bytes or more", bytes.length + " bytes");
        }
        int key = record.getInt(Frames.RECORD_KEY_LENGTH);
        int headers = record.getInt(Frames.RECORD_HEADERS_LENGTH);
        int value = record.getInt(Frames.RECORD_VALUE_LENGTH);
        long expected = (long) Frames.bytesOf(key) + Frames.bytesOf(headers) + Frames.bytesOf(value);
        if (key < Frames.NULL || headers < 0 || value < Frames.NULL
                || expected != rowBytes(record)) {
            throw new FrameFormatException("record frame",
                    "lengths " + key + ", " + headers + ", " + value + " to add up",
                    rowBytes(record) + " bytes of key, headers and value");
        }
        return record;
    }

    private void putLongs(ByteBuffer frame, int position) {
        for (ByteBuffer record : records) {
            frame.putLong(record.getLong(position));
        }
    }

    private void putInts(ByteBuffer frame, int position) {
        for (ByteBuffer record : records) {
            frame.putInt(record.getInt(position));
        }
    }
}
