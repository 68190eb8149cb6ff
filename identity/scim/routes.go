package scim

import "net/http"

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (s *Server) Paths() []string { return []string{prefix + "/"} }

// routes: every path of the package. (RFC 7644 3.2)
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	get, post, put, patch, del := http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	mux.HandleFunc("/scim/v2/Users", s.methods(map[string]handler{get: s.listUsers, post: s.createUser}))
	mux.HandleFunc("/scim/v2/Users/.search", s.methods(map[string]handler{post: s.searchUsers}))
	mux.HandleFunc("/scim/v2/Users/{id}",
		s.methods(map[string]handler{get: s.readUser, put: s.replaceUser, patch: s.patchUser, del: s.deleteUser}))
	mux.HandleFunc("/scim/v2/Groups", s.methods(map[string]handler{get: s.listGroups, post: s.createGroup}))
	mux.HandleFunc("/scim/v2/Groups/.search", s.methods(map[string]handler{post: s.searchGroups}))
	mux.HandleFunc("/scim/v2/Groups/{id}",
		s.methods(map[string]handler{get: s.readGroup, put: s.replaceGroup, patch: s.patchGroup, del: s.deleteGroup}))
	mux.HandleFunc("/scim/v2/Bulk", s.methods(map[string]handler{post: s.bulk}))
	mux.HandleFunc("/scim/v2/ServiceProviderConfig", s.methods(map[string]handler{get: s.serviceProviderConfig}))
	mux.HandleFunc("/scim/v2/ResourceTypes", s.methods(map[string]handler{get: s.listTypes}))
	mux.HandleFunc("/scim/v2/ResourceTypes/{id}", s.methods(map[string]handler{get: s.readType}))
	mux.HandleFunc("/scim/v2/Schemas", s.methods(map[string]handler{get: s.listSchemas}))
	mux.HandleFunc("/scim/v2/Schemas/{id}", s.methods(map[string]handler{get: s.readSchema}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, notFound()) })
	return mux
}
