package io.tidemill.bridge;

/**
 * Bytes are not the frame that they should be.
 *
 * <p>Stops the task: the two sides of the bridge are of different releases, and going on would give
 * rows of one record to another.
 */
public final class FrameFormatException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    FrameFormatException(String frame, String expected, String actual) {
        super(frame + ": expected " + expected + ", got " + actual
                + "; deploy the bridge jar and the Python code of one release together"
                + " and restart the TaskManagers");
    }
}
