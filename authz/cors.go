package authz

import (
	"net/http"
	"strings"
)

// cors sets the headers of the Fetch standard and answers a preflight; it returns true when it has answered.
// Credentials are never allowed: tokens travel in headers and bodies. What is public anyway can be read from
// everywhere: clients in browsers look for their server so, such as those of MCP.
func (s *Server) cors(w http.ResponseWriter, r *http.Request, rt route) bool {
	h := w.Header()
	origin := r.Header.Get("Origin")
	allowed := origin != "" && !rt.public && s.clients.AllowsOrigin(r.Context(), origin)
	switch {
	case rt.public:
		allowed = true
		h.Set("Access-Control-Allow-Origin", "*")
	default:
		h.Add("Vary", "Origin")
	}
	if allowed && !rt.public {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After, DPoP-Nonce")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if allowed {
		h.Set("Access-Control-Allow-Methods", strings.Join(rt.methods, ", "))
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP, MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
