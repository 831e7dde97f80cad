package io.tidemill.bridge;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus;

/**
 * Gathers record frames into one batch frame a partition, so that Python is called once for many
 * records. Decides nothing but when a frame leaves: at {@code maxRows}, at {@code maxBytes}, or
 * {@code lingerMs} after its first row; at once if nothing left for longer than that, since a row
 * that comes alone gains nothing by waiting.
 *
 * <p>Everything is flushed before a watermark passes, else a row would be seen behind a watermark
 * that it arrived before; before a barrier, else a row would be in no checkpoint (the operator has
 * no state); before the input becomes idle or ends, else the last rows would be lost or held.
 */
public class BatchPacker extends AbstractStreamOperator<byte[]>
        implements OneInputStreamOperator<byte[], byte[]> {
    private static final long serialVersionUID = 1L;

    /** Far above 256 usual events, and a size that Flink's network buffers and Python take well. */
    public static final int DEFAULT_MAX_BYTES = 4 * 1024 * 1024;

    private final int maxRows;
    private final long lingerMs;
    private final int maxBytes;

    private transient Map<Integer, FrameBuffer> buffers;
    private transient long watermarkMs;
    private transient long lastLeftMs;
    private transient boolean timerSet;

    public BatchPacker(int maxRows, long lingerMs) {
        this(maxRows, lingerMs, DEFAULT_MAX_BYTES);
    }

    /** A record larger than {@code maxBytes} still passes, in a frame of its own. */
    public BatchPacker(int maxRows, long lingerMs, int maxBytes) {
        if (maxRows < 1 || lingerMs < 0 || maxBytes < 1) {
            throw new IllegalArgumentException("maxRows " + maxRows + " and maxBytes " + maxBytes
                    + " must be 1 or more, lingerMs " + lingerMs + " 0 or more");
        }
        this.maxRows = maxRows;
        this.lingerMs = lingerMs;
        this.maxBytes = maxBytes;
    }

    @Override
    public void open() throws Exception {
        super.open();
        reset();
    }

    /** Fields that do not travel with the operator to its task. */
    void reset() {
        buffers = new TreeMap<>();
        watermarkMs = Long.MIN_VALUE;
        lastLeftMs = Long.MAX_VALUE;
        timerSet = false;
    }

    @Override
    public void processElement(StreamRecord<byte[]> element) {
        ByteBuffer record = FrameBuffer.checked(element.getValue());
        int partition = record.getInt(Frames.RECORD_PARTITION);
        FrameBuffer buffer = buffers.computeIfAbsent(partition, FrameBuffer::new);
        if (buffer.frameBytes(1, FrameBuffer.rowBytes(record)) > maxBytes) {
            flush(buffer);
        }
        long nowMs = getProcessingTimeService().getCurrentProcessingTime();
        buffer.add(record, nowMs);
        boolean quiet = !timerSet && nowMs - lastLeftMs > lingerMs;
        if (quiet || buffer.rows() >= maxRows || buffer.frameBytes(0, 0) >= maxBytes) {
            flush(buffer);
        } else {
            setTimer(nowMs + lingerMs);
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        flushAll();
        watermarkMs = mark.getTimestamp();
        super.processWatermark(mark);
    }

    @Override
    public void processWatermarkStatus(WatermarkStatus status) throws Exception {
        flushAll();
        super.processWatermarkStatus(status);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        flushAll();
        super.prepareSnapshotPreBarrier(checkpointId);
    }

    @Override
    public void finish() throws Exception {
        flushAll();
        super.finish();
    }

    /** One timer for all partitions: what it finds has waited for lingerMs at most. */
    private void setTimer(long atMs) {
        if (!timerSet) {
            timerSet = true;
            getProcessingTimeService().registerTimer(atMs, firedAt -> {
                timerSet = false;
                flushAll();
            });
        }
    }

    private void flushAll() {
        buffers.values().forEach(this::flush);
    }

    private void flush(FrameBuffer buffer) {
        if (!buffer.isEmpty()) {
            lastLeftMs = getProcessingTimeService().getCurrentProcessingTime();
            output.collect(new StreamRecord<>(buffer.drain(watermarkMs)));
        }
    }
}
