package io.tidemill.bridge;

import org.apache.flink.api.common.functions.FilterFunction;

/**
 * Passes the out frames of one route.
 *
 * <p>PyFlink sends what a keyed broadcast function's timer emits to its main output, side outputs
 * included, so the lane has one output and says in each frame where it goes.
 */
public final class FrameRoute implements FilterFunction<byte[]> {
    private static final long serialVersionUID = 1L;

    private final int route;

    public FrameRoute(int route) {
        this.route = route;
    }

    @Override
    public boolean filter(byte[] frame) {
        return OutFrame.route(frame) == route;
    }
}
