package io.tidemill.bridge;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Layouts that more than one class knows; all little endian. {@code operators/frames.py} is the
 * other side: a change here without one there gives rows of one record to another.
 *
 * <pre>
 * record  ts i64, partition i32, offset i64, key i32, headers i32, value i32 (lengths); bytes
 * batch   "TMB1", n i32, total i32, partition i32, first arrival ms i64, watermark ms i64;
 *         ts i64[n], offset i64[n], key i32[n], headers i32[n], value i32[n], late u8[n];
 *         zeros to a multiple of 8; bytes of row after row
 * out     "TMO1", n i32, total i32, 0 i32; ts i64[n], key i32[n], headers i32[n], value i32[n];
 *         zeros to a multiple of 8; bytes of row after row
 * </pre>
 *
 * <p>The bytes of a row are its key, headers (see {@link HeaderCodec}) and value. A length of -1 is
 * a null key or value, which is not the same as an empty one.
 */
final class Frames {
    static final int BATCH_MAGIC = magic("TMB1");
    static final int BATCH_HEADER_BYTES = 32;
    static final int BATCH_ROW_BYTES = 8 + 8 + 4 + 4 + 4 + 1;

    static final int OUT_MAGIC = magic("TMO1");
    static final int OUT_HEADER_BYTES = 16;
    static final int OUT_ROW_BYTES = 8 + 4 + 4 + 4;

    static final int RECORD_HEADER_BYTES = 32;
    static final int RECORD_TS = 0;
    static final int RECORD_PARTITION = 8;
    static final int RECORD_OFFSET = 12;
    static final int RECORD_KEY_LENGTH = 20;
    static final int RECORD_HEADERS_LENGTH = 24;
    static final int RECORD_VALUE_LENGTH = 28;

    static final int NULL = -1;

    private Frames() {}

    static ByteBuffer view(byte[] frame) {
        return ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
    }

    static ByteBuffer allocate(long bytes) {
        return ByteBuffer.allocate(Math.toIntExact(bytes)).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Length field of a key or value. */
    static int lengthOf(byte[] blob) {
        return blob == null ? NULL : blob.length;
    }

    /** Bytes that a key or value of that length field takes. */
    static int bytesOf(int length) {
        return Math.max(length, 0);
    }

    static void putNullable(ByteBuffer buffer, byte[] blob) {
        if (blob != null) {
            buffer.put(blob);
        }
    }

    /** Next multiple of 8: rows start aligned, whatever the number of rows. */
    static long padded(long bytes) {
        return (bytes + 7) & ~7L;
    }

    private static int magic(String letters) {
        int value = 0;
        for (int i = 0; i < 4; i++) {
            value |= letters.charAt(i) << (8 * i);
        }
        return value;
    }
}
