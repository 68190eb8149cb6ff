package scim

import (
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// leftHeader names in an answer what of the request was left out. (docs/decisions/scim.md#values-of-other-systems)
const leftHeader = "Gatehouse-Left-Out"

// leftOut returns what was left out while the request was read, for the event of the change.
func (d *reader) leftOut() (out []person.LeftOut) {
	for _, name := range d.left {
		out = append(out, person.LeftOut{Field: name, Problem: "is not known here, or of another type"})
	}
	return out
}

// attributesOf are the attributes of the members of a profile that have other names in SCIM.
var attributesOf = map[string]string{
	"given_name": "name.givenName", "family_name": "name.familyName", "name": "displayName", "email": "emails",
	"phone_numbers": "phoneNumbers",
	"initials":      ourUser + ":initials", "gender": ourUser + ":gender", "date_of_birth": ourUser + ":dateOfBirth",
	"reference_id": ourUser + ":referenceId", "custom_attributes": ourUser + ":customAttributes",
}

// scimNames returns the names of attributes that were left out.
func scimNames(left []person.LeftOut) (out []string) {
	for _, field := range person.Fields(left) {
		if name, ok := attributesOf[field]; ok {
			field = name
		}
		out = append(out, field)
	}
	return out
}

// tellLeft says in the header and in the log what was left out.
func (s *Server) tellLeft(w http.ResponseWriter, r *http.Request, c *call, names []string) {
	if len(names) == 0 {
		return
	}
	w.Header().Add(leftHeader, strings.Join(names[:min(len(names), maxLeft)], ", "))
	s.deps.Log.Info("attributes left out", zap.String("method", r.Method), zap.String("client_id", c.by.ID), zap.Strings("attributes", names))
}
