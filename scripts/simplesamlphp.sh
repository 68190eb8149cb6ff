#!/usr/bin/env bash
# Serves SimpleSAMLphp as a SAML identity provider on 127.0.0.1, to try Gatehouse with (docs/saml.md).
# Its users are in e2e/simplesamlphp/authsources.php.
# usage: simplesamlphp.sh PORT [DIR]
# DIR has its key and, as DIR/sp/NAME.xml, the metadata of the service providers that it answers.
set -euo pipefail
port=${1:?usage: simplesamlphp.sh PORT [DIR]}
dir=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")/.." && pwd)
root=$here/.bin/simplesamlphp
[[ -d $root ]] || root=
www=$root/usr/share/simplesamlphp/www
[[ -d $www ]] || { echo "simplesamlphp.sh: SimpleSAMLphp is not installed: make install" >&2; exit 1; }

umask 077
mkdir -p "$dir"/{cert,log,data,tmp,sp,store}
[[ -s $dir/salt ]] || head -c 24 /dev/urandom | base64 >"$dir/salt"
[[ -s $dir/cert/idp.key ]] || openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=SimpleSAMLphp" \
	-keyout "$dir/cert/idp.key" -out "$dir/cert/idp.crt" 2>/dev/null

export GATEHOUSE_SAML_DIR=$dir GATEHOUSE_SAML_ETC=$root/etc/simplesamlphp GATEHOUSE_SAML_URL=http://127.0.0.1:$port
export SIMPLESAMLPHP_CONFIG_DIR=$here/e2e/simplesamlphp PHP_CLI_SERVER_WORKERS=4
echo "metadata: $GATEHOUSE_SAML_URL/saml2/idp/metadata.php   state: $dir"
exec php -d display_errors=0 -S "127.0.0.1:$port" -t "$www"
