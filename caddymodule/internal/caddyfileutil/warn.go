package caddyfileutil

import (
	"fmt"
	"reflect"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// Warn adds a warning to the result of adapting the Caddyfile, with the line of the token that h stands on. Caddy keeps
// the list in an unexported field of Helper. If that field goes away, the warning is lost and the tests fail.
func Warn(h httpcaddyfile.Helper, directive, format string, args ...any) {
	list := reflect.ValueOf(h).FieldByName("warnings")
	if list.Kind() != reflect.Pointer || list.IsNil() || list.Type() != reflect.TypeFor[*[]caddyconfig.Warning]() {
		return
	}
	warnings := (*[]caddyconfig.Warning)(list.UnsafePointer())
	*warnings = append(*warnings,
		caddyconfig.Warning{File: h.File(), Line: h.Line(), Directive: directive, Message: fmt.Sprintf(format, args...)})
}
