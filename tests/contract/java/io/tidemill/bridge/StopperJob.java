package io.tidemill.bridge;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Runs a JobStopper in a job that Flink would restart for ever, and tells why the job ended. */
final class StopperJob {
    private StopperJob() {}

    /** The message -> the class of each cause, then the text of the last one. */
    static List<String> run(byte[] message) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
        env.enableCheckpointing(1000);
        env.fromData(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, message)
                .flatMap(new JobStopper())
                .returns(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)
                .sinkTo(new DiscardingSink<>());
        List<String> causes = new ArrayList<>();
        try {
            env.execute();
        } catch (Exception failure) {
            Throwable last = failure;
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                causes.add(cause.getClass().getSimpleName());
                last = cause;
            }
            causes.add(Tokens.token(last.getMessage().getBytes()));
        }
        return causes;
    }
}
