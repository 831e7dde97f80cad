#!/bin/sh
# One process a container, in the foreground, so that signals reach it.
set -eu
role="$1"
case "$role" in
    jobmanager | taskmanager) exec "$FLINK_HOME/bin/$role.sh" start-foreground ;;
    *) exec "$@" ;;
esac
