#!/usr/bin/env bash
# Serves Caddyfile.example by two nodes behind HAProxy that share a PostgreSQL database, and prints what to look at and
# what to kill. What is killed is started again. Ctrl-C ends all of it and removes its data.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${GATEHOUSE_BIN:-$PWD/bin/gatehouse}
[ -x "$bin" ] || { echo "$bin is missing: run make build" >&2; exit 1; }
haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy) || { echo "haproxy is missing: run make install" >&2; exit 1; }
pg=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$pg/postgres" ] || { echo "postgresql is missing: run make install" >&2; exit 1; }

dir=$(mktemp -d /tmp/gatehouse-cluster.XXXXXX)
chmod 711 "$dir" # PostgreSQL has its data below
as=()            # PostgreSQL refuses root
if [ "$(id -u)" = 0 ]; then
	user=postgres
	id -u "$user" >/dev/null 2>&1 || user=nobody
	as=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
fi

declare -A pid again # of a name its process, and when it is started again, in seconds since the beginning
gone() { while kill -0 "$1" 2>/dev/null; do sleep 0.1; done; }
clean() {
	trap '' INT TERM
	for name in node-1 node-2 haproxy; do [ -z "${pid[$name]:-}" ] || kill "${pid[$name]}" 2>/dev/null || true; done
	for name in node-1 node-2 haproxy; do [ -z "${pid[$name]:-}" ] || gone "${pid[$name]}"; done
	if [ -n "${pid[postgres]:-}" ]; then
		kill -INT "${pid[postgres]}" 2>/dev/null || true
		gone "${pid[postgres]}"
	fi
	rm -rf "$dir"
}
trap clean EXIT
trap 'exit 0' INT TERM

# start NAME starts a process in a session of its own, so that Ctrl-C reaches this script alone, which ends them in order.
start() {
	local -a command
	case $1 in
		postgres) command=("${as[@]}" "$pg/postgres" -D "$dir/pg" -p 8425 -k "$dir/pg" -c listen_addresses=127.0.0.1) ;;
		haproxy) command=("$haproxy" -db -f "$dir/haproxy.cfg") ;;
		node-1) command=(env NODE=127.0.0.2 ADMIN=127.0.0.1:8418 "HOME=$dir/node-1" "$bin" run --config "$dir/Caddyfile" --adapter caddyfile) ;;
		node-2) command=(env NODE=127.0.0.3 ADMIN=127.0.0.1:8419 "HOME=$dir/node-2" "$bin" run --config "$dir/Caddyfile" --adapter caddyfile) ;;
	esac
	setsid "${command[@]}" >>"$dir/$1.log" 2>&1 </dev/null &
	pid[$1]=$!
	disown # or the shell would say what has become of it
	echo $! >"$dir/$1.pid"
}

# ended NAME starts it again, the nodes after a while in which the other one serves alone.
ended() {
	local after=1
	case $1 in node-*) after=8 ;; esac
	echo "  $(date +%T)  $1 has ended; it is started again in $after s"
	pid[$1]='' again[$1]=$((SECONDS + after))
}

# ready ADDRESS tells whether the issuer answers 200 at /healthz.
ready() {
	local line
	exec 3<>"/dev/tcp/$1/8420" || return 1
	printf 'GET /healthz HTTP/1.0\r\nHost: localhost:8420\r\n\r\n' >&3
	read -r line <&3 || return 1
	exec 3>&-
	[[ $line == *' 200 '* ]]
}

# await NAME COMMAND… waits until a command succeeds, while the process lives.
await() {
	local name=$1
	shift
	for _ in $(seq 300); do
		kill -0 "${pid[$name]}" 2>/dev/null || break
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "$name did not start. The end of its log:" >&2
	tail -n 5 "$dir/$name.log" >&2
	exit 1
}

password=$(head -c 18 /dev/urandom | base64 | tr '+/' '-_')
export PGPASSWORD=$password DATABASE_URL="postgres://gatehouse:$password@127.0.0.1:8425/gatehouse?sslmode=disable"
GATEHOUSE_KEY=$(head -c 32 /dev/urandom | base64)
export GATEHOUSE_KEY
umask 077
mkdir "$dir/pg" "$dir/node-1" "$dir/node-2"
echo "$password" >"$dir/pg.password"
[ ${#as[@]} = 0 ] || chown "$user" "$dir/pg" "$dir/pg.password"
"${as[@]}" "$pg/initdb" -D "$dir/pg" -U gatehouse "--pwfile=$dir/pg.password" --auth=scram-sha-256 --encoding=UTF8 --locale=C >"$dir/initdb.log"

# The nodes serve the same sites at addresses of their own. They believe HAProxy where a request comes from.
sed -e 's|^\tpersist_config off.*|\tpersist_config off\n\tdefault_bind {$NODE}\n\tadmin {$ADMIN}|' \
	-e 's|^\tservers {|&\n\t\ttrusted_proxies static 127.0.0.1|' \
	-e 's|storage badger .*|storage postgres {env.DATABASE_URL}\n\t\tencryption_key {env.GATEHOUSE_KEY}|' \
	-e 's|bind 127.0.0.1|bind {$NODE}|' -e 's|reverse_proxy 127.0.0.1|reverse_proxy {$NODE}|' Caddyfile.example >"$dir/Caddyfile"

cat >"$dir/haproxy.cfg" <<'TEXT'
defaults
	mode http
	timeout connect 1s
	timeout client 30s
	timeout server 45s
	timeout tunnel 1h
	option redispatch 1
	option forwardfor
	http-error status 502 content-type text/plain string "try again" hdr Retry-After 1
	http-error status 503 content-type text/plain string "try again" hdr Retry-After 1
	http-error status 504 content-type text/plain string "try again" hdr Retry-After 1
listen issuer
	bind 127.0.0.1:8420
	http-response set-header X-Node %s
	option httpchk
	http-check send meth GET uri /healthz ver HTTP/1.1 hdr Host localhost:8420
	default-server check inter 500ms fall 2 rise 2
	server node-1 127.0.0.2:8420
	server node-2 127.0.0.3:8420
listen page
	bind 127.0.0.1:8421
	http-response set-header X-Node %s
	server node-1 127.0.0.2:8421 track issuer/node-1
	server node-2 127.0.0.3:8421 track issuer/node-2
listen api
	bind 127.0.0.1:8422
	http-response set-header X-Node %s
	server node-1 127.0.0.2:8422 track issuer/node-1
	server node-2 127.0.0.3:8422 track issuer/node-2
listen look
	bind 127.0.0.1:8429
	stats enable
	stats uri /
	stats refresh 1s
	stats scope issuer
TEXT

start postgres
await postgres "$pg/psql" -h 127.0.0.1 -p 8425 -U gatehouse -d postgres -c 'SELECT 1'
"$pg/createdb" -h 127.0.0.1 -p 8425 -U gatehouse --encoding=UTF8 --template=template0 gatehouse
start node-1 # it makes the tables
await node-1 ready 127.0.0.2
start node-2
await node-2 ready 127.0.0.3
start haproxy
await haproxy ready 127.0.0.1

cat <<TEXT

  Two nodes of Gatehouse are up, behind HAProxy.

  A protected page    http://localhost:8421/
    sign in as        demo@example.com
    with              open-the-gate
  The nodes           http://localhost:8429/ as HAProxy sees them
                      $bin gatehouse nodes --address 127.0.0.1:8419

  A token from whichever node, and the call that it opens on whichever node (X-Node says which):
    TOKEN=\$(curl -s -u reports:an-example-secret-do-not-use-it-elsewhere -d grant_type=client_credentials http://localhost:8420/oauth/token | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
    curl -si -H "Authorization: Bearer \$TOKEN" http://localhost:8422/orders

  Kill, and go on clicking:
    kill -9 \$(cat $dir/node-1.pid)     a node: the other one serves, and you stay signed in
    kill -9 \$(cat $dir/postgres.pid)   the database: 503 until it is back, and nothing is lost
    kill -STOP \$(cat $dir/node-2.pid)  a node that hangs; kill -CONT wakes it

  The data and the logs lie in $dir, and go with Ctrl-C.

TEXT
while :; do
	for name in postgres node-1 node-2 haproxy; do
		if [ -n "${pid[$name]}" ]; then
			kill -0 "${pid[$name]}" 2>/dev/null || ended "$name"
		elif ((SECONDS >= again[$name])); then
			start "$name"
		fi
	done
	sleep 0.2 &
	wait $! || true
done
