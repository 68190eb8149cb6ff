package web

import (
	"net/http"
	"slices"
	"strings"
)

// kindFragment is the cookie in which our script names the sign-ins for which the browser keeps what is after # in the
// address of a site. What it keeps never leaves the browser. (docs/decisions/gateway.md#fragments)
const kindFragment = "fragment"

// KeepsFragment reports whether the browser keeps something under this name.
func (p *Renderer) KeepsFragment(r *http.Request, name string) bool {
	return name != "" && slices.Contains(strings.Split(p.jar.Get(r, kindFragment), "."), name)
}
