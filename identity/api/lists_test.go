package api_test

import (
	"encoding/base64"
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestPersonsList: a backend goes through the persons page by page, and gets them as a file that no spreadsheet
// computes.
func TestPersonsList(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	h.add(person.NewPerson{Username: "ann@example.com", GivenName: "=HYPERLINK(1)", FamilyName: "Berg", Groups: []string{"board"}})
	h.add(person.NewPerson{Username: "annie@example.com", GivenName: "Annie", FamilyName: "Stone"})
	list := func(query string) (names []string) {
		t.Helper()
		after := ""
		for {
			w := h.send(http.MethodGet, "/api/persons?"+query+"&after="+url.QueryEscape(after), "").ResponseRecorder
			if w.Code != http.StatusOK {
				t.Fatalf("persons?%s = %d %s", query, w.Code, w.Body)
			}
			body := answer(t, w)
			for _, p := range body["persons"].([]any) {
				names = append(names, p.(map[string]any)["username"].(string))
			}
			var more bool
			if after, more = body["next"].(string); !more {
				return names
			}
		}
	}
	for query, want := range map[string]string{
		"":                        "ann@example.com annie@example.com " + demo,
		"limit=1":                 "ann@example.com annie@example.com " + demo,
		"text=ann&limit=1":        "ann@example.com annie@example.com",
		"text=berg":               "ann@example.com",
		"group=board":             "ann@example.com",
		"group=staff&text=person": demo,
		"state=BLOCKED":           "",
		"order=recent":            "",
	} {
		if got := strings.Join(list(query), " "); got != want {
			t.Errorf("persons?%s = %q, want %q", query, got, want)
		}
	}
	w := h.send(http.MethodGet, "/api/persons?format=csv&text=ann", "")
	rows, err := csv.NewReader(w.ResponseRecorder.Body).ReadAll()
	if err != nil || w.status() != http.StatusOK || len(rows) != 3 || rows[1][1] != "ann@example.com" || rows[1][5] != "'=HYPERLINK(1)" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
		t.Errorf("a file = %d %q %v", w.status(), rows, err)
	}
	for query, want := range map[string]int{
		"limit=0": 400, "limit=1001": 400, "state=blocked": 400, "order=name": 400, "format=xml": 400, "group=nobodys": 400,
		"after=x": 400, "after=x&format=csv": 400,
		"text=a&text=b": 400, "seen_since=yesterday": 400, "text=a;limit=1": 400,
	} {
		if w := h.send(http.MethodGet, "/api/persons?"+query, ""); w.status() != want || w.Header().Get("Content-Disposition") != "" {
			t.Errorf("persons?%s = %d %s, want %d", query, w.status(), w.Body, want)
		}
	}
	if w := h.send(http.MethodGet, "/api/persons", "", "Authorization",
		"Basic "+base64.StdEncoding.EncodeToString([]byte("other:secret of other"))); w.status() != http.StatusForbidden {
		t.Errorf("an API client without this API gets %d", w.status())
	}
}
