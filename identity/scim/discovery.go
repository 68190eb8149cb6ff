package scim

import (
	"net/http"
	"slices"
)

// serviceProviderConfig serves GET /scim/v2/ServiceProviderConfig. (RFC 7643 5)
func (s *Server) serviceProviderConfig(w http.ResponseWriter, _ *http.Request, _ *call) error {
	write(w, http.StatusOK, object{
		"schemas":        []string{providerSchema},
		"patch":          object{"supported": true},
		"bulk":           object{"supported": true, "maxOperations": maxBulk, "maxPayloadSize": maxBody},
		"filter":         object{"supported": true, "maxResults": maxCount},
		"changePassword": object{"supported": true},
		"sort":           object{"supported": true},
		"etag":           object{"supported": true},
		"authenticationSchemes": []object{
			{
				"type": "oauthbearertoken", "name": "OAuth Bearer Token", "description": "An access token of a client's own with the scope scim",
				"specUri": "https://www.rfc-editor.org/info/rfc6750", "primary": true,
			},
			{
				"type": "httpbasic", "name": "HTTP Basic", "description": "An API client that may use persons",
				"specUri": "https://www.rfc-editor.org/info/rfc7617",
			},
		},
		"meta": object{"resourceType": "ServiceProviderConfig", "location": s.deps.Issuer + prefix + "/ServiceProviderConfig"},
	})
	return nil
}

// noFilter refuses a filter, as the standard demands of these endpoints. (RFC 7644 4)
func noFilter(r *http.Request) error {
	if r.URL.Query().Has("filter") {
		return &Error{Status: http.StatusForbidden, Detail: "this list cannot be filtered"}
	}
	return nil
}

// list writes all of a short list.
func list(w http.ResponseWriter, of []object) {
	write(w, http.StatusOK, listBody{[]string{listMessage}, len(of), len(of), 1, of})
}

// listTypes serves GET /scim/v2/ResourceTypes. (RFC 7643 6)
func (s *Server) listTypes(w http.ResponseWriter, r *http.Request, _ *call) error {
	if err := noFilter(r); err != nil {
		return err
	}
	out := make([]object, 0, len(resourceTypes))
	for _, t := range resourceTypes {
		out = append(out, s.typeTree(t))
	}
	list(w, out)
	return nil
}

// readType serves GET /scim/v2/ResourceTypes/{id}.
func (s *Server) readType(w http.ResponseWriter, r *http.Request, _ *call) error {
	i := slices.IndexFunc(resourceTypes, func(t *resourceType) bool { return t.name == r.PathValue("id") })
	if i < 0 {
		return notFound()
	}
	write(w, http.StatusOK, s.typeTree(resourceTypes[i]))
	return nil
}

func (s *Server) typeTree(t *resourceType) object {
	extensions := make([]object, 0, len(t.extensions))
	for _, e := range t.extensions {
		extensions = append(extensions, object{"schema": e.id, "required": false})
	}
	return object{
		"schemas": []string{typeSchema}, "id": t.name, "name": t.name, "endpoint": t.endpoint, "description": t.description, "schema": t.core.id,
		"schemaExtensions": extensions,
		"meta":             object{"resourceType": "ResourceType", "location": s.deps.Issuer + prefix + "/ResourceTypes/" + t.name},
	}
}

func allSchemas() (out []*schema) {
	for _, t := range resourceTypes {
		out = append(append(out, t.core), t.extensions...)
	}
	return out
}

// listSchemas serves GET /scim/v2/Schemas. (RFC 7643 7)
func (s *Server) listSchemas(w http.ResponseWriter, r *http.Request, _ *call) error {
	if err := noFilter(r); err != nil {
		return err
	}
	var out []object
	for _, sc := range allSchemas() {
		out = append(out, s.schemaTree(sc))
	}
	list(w, out)
	return nil
}

// readSchema serves GET /scim/v2/Schemas/{id}.
func (s *Server) readSchema(w http.ResponseWriter, r *http.Request, _ *call) error {
	for _, sc := range allSchemas() {
		if equalFold(sc.id, r.PathValue("id")) {
			write(w, http.StatusOK, s.schemaTree(sc))
			return nil
		}
	}
	return notFound()
}

func (s *Server) schemaTree(sc *schema) object {
	return object{
		"schemas": []string{schemaSchema}, "id": sc.id, "name": sc.name, "description": sc.description,
		"attributes": attributeTrees(sc.attributes),
		"meta":       object{"resourceType": "Schema", "location": s.deps.Issuer + prefix + "/Schemas/" + sc.id},
	}
}

func attributeTrees(of []*attribute) []object {
	out := make([]object, 0, len(of))
	for _, a := range of {
		o := object{
			"name": a.name, "type": a.typ(), "multiValued": a.multi, "description": a.description, "required": a.required,
			"mutability": or2(a.mutability, readWrite), "returned": or2(a.returned, returnedDefault),
		}
		switch a.typ() {
		case typeString, typeReference, typeBinary:
			o["caseExact"], o["uniqueness"] = a.exact, or2(a.unique, "none")
		case typeComplex:
			o["subAttributes"] = attributeTrees(a.sub)
		}
		if a.canonical != nil {
			o["canonicalValues"] = a.canonical
		}
		if a.references != nil {
			o["referenceTypes"] = a.references
		}
		out = append(out, o)
	}
	return out
}

func or2(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
