package io.tidemill.bridge;

import java.util.HexFormat;

/** Words of the probe's line protocol: bytes are "x" and hex digits, null is "-". */
final class Tokens {
    private Tokens() {}

    static byte[] bytes(String token) {
        return token.equals("-") ? null : HexFormat.of().parseHex(token, 1, token.length());
    }

    static String token(byte[] bytes) {
        return bytes == null ? "-" : "x" + HexFormat.of().formatHex(bytes);
    }
}
