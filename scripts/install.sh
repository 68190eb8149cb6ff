#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: a C compiler (the race detector needs one), Chromium, Node.js
# with npm, Python's requests-oauthlib, Django, Authlib and PyJWT, nginx with set_misc, HAProxy, OpenLDAP, MIT
# Kerberos, PostgreSQL, PgBouncer, Apache with mod_auth_mellon, PHP with SimpleSAMLphp, systemd-analyze, minisign,
# debootstrap, QEMU for programs of arm64, and the npm packages of e2e/node, e2e/clients and e2e/mcp. It installs on
# Debian and Ubuntu; on other systems it names the missing packages. It needs root or sudo only to install. With the word
# faults it also installs what the whole round of faults needs: Patroni and etcd.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

missing=()
have make || missing+=(make)
have gcc || missing+=(gcc libc6-dev)
have chromium || have chromium-browser || have google-chrome || missing+=(chromium fonts-dejavu-core)
# The headless shell takes a third of a Chromium's time. Not every release has it.
have chromium-headless-shell || [[ -z $(apt-cache search --names-only '^chromium-headless-shell$' 2>/dev/null) ]] || missing+=(chromium-headless-shell)
have node || missing+=(nodejs)
have npm || missing+=(npm)
/usr/bin/python3 -c 'import requests_oauthlib' 2>/dev/null || missing+=(python3-requests-oauthlib)
/usr/bin/python3 -c 'import django, authlib' 2>/dev/null || missing+=(python3-django python3-authlib)
/usr/bin/python3 -c 'import jwt, cryptography' 2>/dev/null || missing+=(python3-jwt python3-cryptography)
have curl || missing+=(curl ca-certificates)
have systemd-analyze || missing+=(systemd)
have minisign || missing+=(minisign)
have debootstrap || [[ -x /usr/sbin/debootstrap ]] || missing+=(debootstrap)
have qemu-aarch64-static || missing+=(qemu-user-static)
have certutil || missing+=(libnss3-tools)
have openssl || missing+=(openssl)
have nginx || [[ -x /usr/sbin/nginx ]] || missing+=(nginx-light)
[[ -e /usr/lib/nginx/modules/ngx_http_set_misc_module.so ]] || missing+=(libnginx-mod-http-set-misc)
have haproxy || [[ -x /usr/sbin/haproxy ]] || missing+=(haproxy)
have slapd || [[ -x /usr/sbin/slapd ]] || missing+=(slapd)
have krb5kdc || [[ -x /usr/sbin/krb5kdc ]] || missing+=(krb5-kdc)
have kadmin.local || [[ -x /usr/sbin/kadmin.local ]] || missing+=(krb5-admin-server)
have kinit || missing+=(krb5-user)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
have pgbouncer || [[ -x /usr/sbin/pgbouncer ]] || missing+=(pgbouncer)
[[ -e /usr/lib/apache2/modules/mod_auth_mellon.so ]] || missing+=(apache2-bin libapache2-mod-auth-mellon)
have php || missing+=(php-cli)
if [[ ${1-} == faults ]]; then
	have etcd || missing+=(etcd-server)
	have patroni || missing+=(patroni)
fi
[[ $(php -m 2>/dev/null) == *mbstring*xml* ]] || missing+=(php-xml php-mbstring)

sudo=()
if [[ $(id -u) != 0 ]]; then
	sudo=(sudo)
fi
update() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update; }

if ((${#missing[@]})); then
	have apt-get || { echo "install: not a Debian or Ubuntu: please install ${missing[*]}" >&2; exit 1; }
	((${#sudo[@]} == 0)) || have sudo || { echo "install: neither root nor sudo: please install ${missing[*]}" >&2; exit 1; }
	echo "install: ${missing[*]}"
	update
	# RUNLEVEL keeps nginx, HAProxy, PostgreSQL and PgBouncer from being started as services.
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
fi

# The package depends on a web server that would listen on port 80, so only its files are unpacked.
if [[ ! -d .bin/simplesamlphp && ! -d /usr/share/simplesamlphp/www ]]; then
	have apt-get || { echo "install: not a Debian or Ubuntu: please install SimpleSAMLphp 1.19 at /usr/share/simplesamlphp" >&2; exit 1; }
	echo "install: simplesamlphp"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && { apt-get -qq download simplesamlphp 2>/dev/null || { update && apt-get -qq download simplesamlphp; }; } && dpkg -x simplesamlphp_*.deb simplesamlphp)
	mkdir -p .bin
	mv "$work/simplesamlphp" .bin/
fi

# npm writes this file last, so it is as old as the installed packages
npm_packages() {
	[[ ! $1/node_modules/.package-lock.json -nt $1/package-lock.json ]] || return 0
	(cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	touch "$1/node_modules/.package-lock.json"
}
running=()
for dir in e2e/node e2e/clients e2e/mcp; do
	npm_packages "$dir" &
	running+=($!)
done
for job in "${running[@]}"; do
	wait "$job"
done
