#!/bin/sh
# Renders the users from their template, so that no password is in the repository or on a command
# line: the writer writes under the prefix of its application, callers read there (docs/contracts.md).
set -eu
here="${CONF_DIR:-/etc/redis}"
users="${USERS_FILE:-/tmp/users.acl}"
secret="${PASSWORD_FILE:-/run/secrets/redis_password}"
hash=$(tr -d '\r\n' < "$secret" | sha256sum | cut -d ' ' -f 1)
umask 077
sed "s/@PASSWORD_SHA256@/$hash/" "$here/users.acl.tmpl" > "$users"
exec "${REDIS_SERVER:-redis-server}" "$here/redis.conf" --aclfile "$users" "$@"
