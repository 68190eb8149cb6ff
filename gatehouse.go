// Package gatehouse brings Gatehouse's modules into a Caddy: xcaddy build --with github.com/gatehouse-id/gatehouse is
// all it takes.
package gatehouse

import (
	_ "github.com/gatehouse-id/gatehouse/caddymodule" // registers the modules
)
