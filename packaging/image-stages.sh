#!/usr/bin/env bash
# Runs the Dockerfile's stages without Docker: `packaging/image-stages.sh FOLDER [PORT]`, as root.
#
# The build stage runs here, with this machine's Rust and this folder in place of /source. The files that the second
# stage copies become a root file system in FOLDER/root, with the C libraries of this machine in place of the base
# image's. The server starts in it as in the image: with its user, its folder and its environment, and read-only except
# for its volume.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
port=${2:-8080}
cd "$(dirname "$0")/.."
root=$folder/root
rm -rf "$root" "$folder/image"
mkdir -p "$root"
stage=0 env=() command=() user=0:0 workdir=/ volume=

while read -r word rest; do
  case "$stage $word" in
    *" FROM") stage=$((stage + 1)) ;;
    "1 RUN") bash -euc "$(sed -E "s#--mount=[^ ]+ *##g; s#/image/#$folder/image/#g" <<<"$rest")" ;;
    "2 COPY")
      read -r from to <<<"$(sed -E 's#--[a-z]+=[^ ]+ *##g' <<<"$rest")"
      install -d "$(dirname "$root$to")"
      cp -a "$folder$from" "$root$to"
      owner=$(grep -oP -- '--chown=\K[^ ]+' <<<"$rest" || true)
      chown -R "${owner:-0:0}" "$root$to"
      ;;
    "2 ENV") env+=("$rest") ;;
    "2 WORKDIR") workdir=$rest ;;
    "2 VOLUME") volume=$rest ;;
    "2 USER") user=$rest ;;
    "2 ENTRYPOINT" | "2 CMD") mapfile -t -O "${#command[@]}" command < <(grep -oP '"\K[^"]+(?=")' <<<"$rest") ;;
  esac
done < <(sed -e ':a' -e '/\\$/N; s/ *\\\n */ /; ta' Dockerfile | grep -vE '^\s*(#|$)')

ldd "$root${command[0]}" | grep -oE '/[^ ]+' | while read -r library; do
  install -D "$library" "$root$library"
done
echo "stages done: $(du -sh "$root" | cut -f1); starts ${command[*]} as $user"

unshare --mount bash -euc '
  mount --bind "$1" "$1"
  mount --bind "$1$2" "$1$2"
  mount -o remount,bind,ro "$1"
  exec env -i "${@:6}" GATEWRIGHT__SERVER__LISTEN="127.0.0.1:$5" GATEWRIGHT__SERVER__PUBLIC_URL="https://example.com" \
    GATEWRIGHT__AUTH__JWT_SECRET=a-secret-for-this-run-alone-long-enough /usr/bin/python3 -c "
import os, sys
root, folder, user, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
os.chroot(root); os.chdir(folder)
uid, gid = map(int, user.split(\":\")); os.setgroups([]); os.setgid(gid); os.setuid(uid)
os.execv(command[0], command)" "$1" "$3" "$4" '"${command[*]@Q}"'
' image "$root" "$volume" "$workdir" "$user" "$port" "${env[@]}" &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 100); do
  if answer=$(curl -fs "http://127.0.0.1:$port/readyz"); then
    echo "ready: $answer"
    kill -TERM $server
    wait $server
    trap - EXIT
    ls -ln "$root$volume"
    exit 0
  fi
  sleep 0.1
done
echo "the server was not ready within 10 seconds" >&2
exit 1
