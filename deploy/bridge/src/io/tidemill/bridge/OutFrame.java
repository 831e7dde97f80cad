package io.tidemill.bridge;

import java.nio.ByteBuffer;

/** Checked view of an out frame: rows that Python wants written to Kafka. */
final class OutFrame {
    final int rows;

    private final ByteBuffer frame;
    private final int keyLengths;
    private final int headerLengths;
    private final int valueLengths;
    private int nextRow;
    private int nextByte;

    OutFrame(byte[] bytes) {
        frame = Frames.view(bytes);
        if (bytes.length < Frames.OUT_HEADER_BYTES) {
            throw malformed(Frames.OUT_HEADER_BYTES + " bytes or more", bytes.length + " bytes");
        }
        if (frame.getInt(0) != Frames.OUT_MAGIC) {
            throw malformed("magic TMO1", String.format("0x%08x", frame.getInt(0)));
        }
        rows = frame.getInt(4);
        int total = frame.getInt(8);
        long start = Frames.padded(Frames.OUT_HEADER_BYTES + (long) Frames.OUT_ROW_BYTES * rows);
        if (rows < 0 || total != bytes.length || start > total) {
            throw malformed(total + " bytes, at least " + start + " for its " + rows + " rows",
                    bytes.length + " bytes");
        }
        keyLengths = Frames.OUT_HEADER_BYTES + 8 * rows;
        headerLengths = keyLengths + 4 * rows;
        valueLengths = headerLengths + 4 * rows;
        nextByte = (int) start;
        checkLengths(start);
    }

    /** Where the frame goes, see FrameRoute. */
    static int route(byte[] bytes) {
        if (bytes.length < Frames.OUT_HEADER_BYTES) {
            throw malformed(Frames.OUT_HEADER_BYTES + " bytes or more", bytes.length + " bytes");
        }
        return Frames.view(bytes).getInt(12);
    }

    private void checkLengths(long start) {
        long end = start;
        for (int row = 0; row < rows; row++) {
            int key = frame.getInt(keyLengths + 4 * row);
            int headers = frame.getInt(headerLengths + 4 * row);
            int value = frame.getInt(valueLengths + 4 * row);
            if (key < Frames.NULL || headers < 0 || value < Frames.NULL) {
                throw malformed("lengths of -1 or more in row " + row,
                        key + ", " + headers + ", " + value);
            }
            end += (long) Frames.bytesOf(key) + headers + Frames.bytesOf(value);
        }
        if (end != frame.capacity()) {
            throw malformed("rows that end at byte " + frame.capacity(), "an end at " + end);
        }
    }

    /** The next row as an out frame of its own. */
    byte[] takeRow() {
        int key = frame.getInt(keyLengths + 4 * nextRow);
        int headers = frame.getInt(headerLengths + 4 * nextRow);
        int value = frame.getInt(valueLengths + 4 * nextRow);
        int rowBytes = Frames.bytesOf(key) + headers + Frames.bytesOf(value);
        long start = Frames.padded(Frames.OUT_HEADER_BYTES + Frames.OUT_ROW_BYTES);
        ByteBuffer single = Frames.allocate(start + rowBytes);
        single.putInt(Frames.OUT_MAGIC).putInt(1).putInt(single.capacity()).putInt(0);
        single.putLong(frame.getLong(Frames.OUT_HEADER_BYTES + 8 * nextRow));
        single.putInt(key).putInt(headers).putInt(value);
        single.position((int) start);
        single.put(frame.array(), nextByte, rowBytes);
        nextByte += rowBytes;
        nextRow++;
        return single.array();
    }

    /** Timestamp of row 0 in epoch ms; negative if it has none. */
    long timestamp() {
        return frame.getLong(Frames.OUT_HEADER_BYTES);
    }

    /** Key of row 0, or null. */
    byte[] key() {
        return slice(nextByte, frame.getInt(keyLengths));
    }

    /** Headers of row 0, still encoded. */
    ByteBuffer headers() {
        int start = nextByte + Frames.bytesOf(frame.getInt(keyLengths));
        return frame.slice(start, frame.getInt(headerLengths));
    }

    /** Value of row 0, or null. */
    byte[] value() {
        int length = frame.getInt(valueLengths);
        return slice(frame.capacity() - Frames.bytesOf(length), length);
    }

    private byte[] slice(int start, int length) {
        if (length == Frames.NULL) {
            return null;
        }
        byte[] blob = new byte[length];
        frame.get(start, blob);
        return blob;
    }

    private static FrameFormatException malformed(String expected, String actual) {
        return new FrameFormatException("out frame TMO1", expected, actual);
    }
}
