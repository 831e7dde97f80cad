"""The one Redis command that delivers answers: its script, its packing and the check of its reply.

A call writes up to `MAX_CALL_ROWS` rows atomically.  Per row: the first answer of an attempt
stays, a newer attempt replaces an older one, and only a row that was written wakes its waiter and
goes to its caller's stream.  So replays can change no answer and wake nobody twice.
Pure: bytes in, bytes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha1
from typing import Any, Final

from tidemill.errors import ContractError
from tidemill.resp import pack

# task, attempt, status, reply-to or None, result JSON
DeliveryRow = tuple[str, int, str, str | None, bytes]

# Redis serves nobody else while a script runs: 512 rows are about 2 ms.
MAX_CALL_ROWS: Final = 512

# KEYS: a result key a row.  ARGV: ttl in s, stream length, prefix of streams, then a row at a time
# attempt, status, reply-to or '', result.  Reply: a row at a time nil (written) or the value that
# stays; then how many streams refused their entry.
# pcall: a key of another type must cost one row its old value, not all rows their answers.
SCRIPT: Final = b"""#!lua flags=no-cluster
local call, pcall, match = redis.call, redis.pcall, string.match
local ttl, len, streams = ARGV[1], ARGV[2], ARGV[3]
local reply, seen, refused, a = {}, {}, 0, 4
for i = 1, #KEYS do
  local key, status, to, value = KEYS[i], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local old = pcall('SET', key, value, 'EX', ttl, 'NX', 'GET')
  if old then
    local has = not old.err and tonumber(match(old, '"attempt":(%d+)')) or -1
    if has < tonumber(ARGV[a]) then
      call('SET', key, value, 'EX', ttl)
      old = false
    end
  end
  reply[i] = old
  if not old then
    call('PUBLISH', key, status)
    if to ~= '' then
      local stream = streams .. to
      local added = pcall('XADD', stream, 'MAXLEN', '~', len, '*',
        'task', match(key, '{(.*)}$'), 'status', status, 'result', value)
      if added.err then refused = refused + 1 else seen[stream] = true end
    end
  end
  a = a + 4
end
for stream in pairs(seen) do call('EXPIRE', stream, ttl) end
reply[#KEYS + 1] = refused
return reply
"""
SCRIPT_SHA: Final = sha1(SCRIPT, usedforsecurity=False).hexdigest()


def chunks(rows: Sequence[DeliveryRow]) -> Iterator[Sequence[DeliveryRow]]:
    """The rows in calls of at most MAX_CALL_ROWS."""
    for start in range(0, len(rows), MAX_CALL_ROWS):
        yield rows[start : start + MAX_CALL_ROWS]


def pack_call(
    rows: Sequence[DeliveryRow], prefix: str, ttl_s: int, stream_max_len: int, *, by_text: bool
) -> bytes:
    """The command that writes ``rows``; ``by_text`` sends the script itself, not its hash."""
    keys = f"{prefix}:res:{{"
    command: list[str | bytes | int] = ["EVAL", SCRIPT] if by_text else ["EVALSHA", SCRIPT_SHA]
    command.append(len(rows))
    command += [f"{keys}{row[0]}}}" for row in rows]
    command += (ttl_s, stream_max_len, f"{prefix}:cb:")
    for _, attempt, status, reply_to, value in rows:
        command += (attempt, status, reply_to or "", value)
    return pack(command)


def unpack_reply(reply: Any, rows: int) -> tuple[list[bytes | None], int]:
    """Values that stay (None = written) and how many streams refused; checks the length."""
    if not isinstance(reply, list) or len(reply) != rows + 1:
        raise ContractError(f"Redis answered {rows} rows with {reply!r:.80}")
    refused = reply.pop()
    return reply, refused
