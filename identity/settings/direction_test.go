package settings_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestNamesOfOrganisationsDoNotTurn: the names of an organisation and its applications stand in sentences.
func TestNamesOfOrganisationsDoNotTurn(t *testing.T) {
	t.Parallel()
	w := owned(t)
	for _, c := range []string{"\u202e", "\u2066"} {
		for _, name := range []string{`"name":"Acme 2"`, `"name":"One"`} {
			body := strings.Replace(own, name, `"name":"Mail `+c+`knaB"`, 1)
			if a := w.asAcme(http.MethodPost, "/api/v2/config", `{"organisations":[`+body+`]}`); a.status != http.StatusUnprocessableEntity &&
				a.status != http.StatusBadRequest {
				t.Errorf("POST of a name with %q in place of %s = %d %s, want 400", c, name, a.status, a.body)
			}
		}
	}
}
