package authz

import (
	"net/http"
	"strings"
)

// cors sets the headers of the Fetch standard and answers a preflight; it returns true when it has answered.
// Credentials are never allowed: tokens travel in headers and bodies.
func (s *Server) cors(w http.ResponseWriter, r *http.Request, rt route) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	allowed := origin != "" && s.clients.AllowsOrigin(r.Context(), origin)
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if allowed {
		h.Set("Access-Control-Allow-Methods", strings.Join(rt.methods, ", "))
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
