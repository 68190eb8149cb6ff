// Command gatehouse is Caddy with its standard modules and Gatehouse's.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/gatehouse-id/gatehouse"
)

func main() {
	caddycmd.Main()
}
