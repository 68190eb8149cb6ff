package routetree

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
)

// SocketKeeper is the listener wrapper that keeps sockets over reloads.
type SocketKeeper interface{ KeepsSockets() }

// The names of listener wrappers that matter here.
const (
	keeperName = "gatehouse"
	tlsName    = "tls"
)

// Reloads returns a warning for each server with protect or gatehouse that can lose requests at a reload: it listens at
// TCP, without the listener wrapper gatehouse in front of tls and of all others.
func Reloads(app *caddyhttp.App) (out []diagnostic.Finding) {
	for _, name := range slices.Sorted(maps.Keys(app.Servers)) {
		srv := app.Servers[name]
		if !isOurs(srv) || !slices.ContainsFunc(srv.Listen, isTCP) {
			continue
		}
		wrappers, at := wrappersOf(srv)
		if len(wrappers) > 0 && wrappers[0] == keeperName && slices.Contains(wrappers, tlsName) {
			continue
		}
		f := diagnostic.Finding{
			Severity: diagnostic.Warning, Place: at,
			Reason: "the server at " + strings.Join(srv.Listen, ", ") + " can lose connections and requests at a reload",
			Fix:    "put `servers { listener_wrappers { gatehouse tls } }` into the global options, a line each",
		}
		if len(wrappers) > 0 {
			f.Fix = "write `gatehouse` first in its `listener_wrappers`, and `tls` behind it"
		}
		out = append(out, f)
	}
	return out
}

func isTCP(listen string) bool {
	address, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(listen, ""))
	return err == nil && strings.HasPrefix(address.Network, "tcp")
}

// wrappersOf returns the names of the listener wrappers of a server, "" for irrelevant ones, and the place of
// Gatehouse's own.
func wrappersOf(srv *caddyhttp.Server) (names []string, at string) {
	for _, raw := range srv.ListenerWrappersRaw {
		var w struct {
			Wrapper string `json:"wrapper"`
			At      string `json:"at"`
		}
		_ = json.Unmarshal(raw, &w) // Caddy says what is wrong with it
		if names = append(names, w.Wrapper); w.Wrapper == keeperName {
			at = w.At
		}
	}
	if len(names) > 0 {
		return names, at
	}
	loaded := reflect.ValueOf(srv).Elem().FieldByName("listenerWrappers") // Caddy has no other way to see them
	for i := range loaded.Len() {
		name := ""
		switch t := loaded.Index(i).Elem().Type(); {
		case t.Implements(reflect.TypeFor[SocketKeeper]()):
			name = keeperName
			if field := reflect.Indirect(loaded.Index(i).Elem()).FieldByName("At"); field.Kind() == reflect.String {
				at = field.String()
			}
		case strings.HasSuffix(t.String(), "caddyhttp.tlsPlaceholderWrapper"):
			name = tlsName
		}
		names = append(names, name)
	}
	return names, at
}
