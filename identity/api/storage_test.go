package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

func as(client string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(client+":secret of "+client))}
}

// TestStorageAPI: a program keeps a setting for a person, sees it again, loses no change of another program, and the
// values go with the person.
func TestStorageAPI(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	ann := h.add(person.NewPerson{Username: "ann@example.com"})
	of := "/api/storage/" + ann
	if a := h.send(http.MethodPut, of+"/theme", `{"dark": true}`); a.status() != http.StatusNoContent {
		t.Fatalf("PUT = %d %s", a.status(), a.ResponseRecorder.Body)
	}
	a := h.send(http.MethodGet, of+"/theme", "")
	tag := a.Header().Get("ETag")
	if want := `{"key":"theme","value":{"dark":true},"updated_at":"2026-11-21T12:00:00Z"}`; a.status() != http.StatusOK ||
		a.ResponseRecorder.Body.String() != want || tag == "" {
		t.Errorf("GET = %d %s, want %s", a.status(), a.ResponseRecorder.Body, want)
	}
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		header                   []string
	}{
		{"the value that is known", "GET", of + "/theme", "", 304, []string{"If-None-Match", tag}},
		{"only if it is new", "PUT", of + "/theme", "1", 412, []string{"If-None-Match", "*"}},
		{"a change of what has changed", "PUT", of + "/theme", "1", 412, []string{"If-Match", `"other"`}},
		{"a change of what is not there", "PUT", of + "/none", "1", 412, []string{"If-Match", "*"}},
		{"a removal of what has changed", "DELETE", of + "/theme", "", 412, []string{"If-Match", `"other"`}},
		{"no JSON", "PUT", of + "/a", "{", 400, nil},
		{"nothing", "PUT", of + "/a", "", 400, nil},
		{"too long", "PUT", of + "/a", `"` + strings.Repeat("x", 16<<10) + `"`, 400, nil},
		{"a key with a space", "PUT", of + "/a%20b", "1", 400, nil},
		{"a key that leads elsewhere", "PUT", of + "/" + strings.Repeat("k", 65), "1", 400, nil},
		{"nobody", "PUT", "/api/storage/" + bob + "/a", "1", 404, nil},
		{"nobody's values", "GET", "/api/storage/" + bob, "", 404, nil},
		{"no id", "GET", "/api/storage/ann", "", 404, nil},
		{"a value that is not there", "GET", of + "/none", "", 404, nil},
		{"another method", "POST", of + "/theme", "1", 405, nil},
		{"without this API", "GET", of, "", 403, as("other")},
		{"the change of the value that is known", "PUT", of + "/theme", "2", 204, []string{"If-Match", tag}},
		{"a removal of nothing", "DELETE", of + "/none", "", 204, nil},
	} {
		if a := h.send(tt.method, tt.path, tt.body, tt.header...); a.status() != tt.status {
			t.Errorf("%s: %s %s = %d %s, want %d", tt.name, tt.method, tt.path, a.status(), a.ResponseRecorder.Body, tt.status)
		}
	}

	// The values of one application are those of no other one.
	if a := h.send(http.MethodGet, of, "", as("desk")...); a.ResponseRecorder.Body.String() != `{"values":[]}` {
		t.Errorf("another application reads %s", a.ResponseRecorder.Body)
	}
	if a := h.send(http.MethodDelete, of, "", as("desk")...); a.status() != http.StatusNoContent {
		t.Errorf("another application's DELETE = %d", a.status())
	}
	if a := h.send(http.MethodGet, of, ""); !strings.Contains(a.ResponseRecorder.Body.String(), `"key":"theme","value":2`) {
		t.Errorf("after it: %s", a.ResponseRecorder.Body)
	}

	h.set(func(u *settings.Units) { u.Features.StorageAPIEnabled = false })
	if a := h.send(http.MethodGet, of, ""); a.status() != http.StatusServiceUnavailable || a.Code != 1001 {
		t.Errorf("switched off: %d %s", a.status(), a.ResponseRecorder.Body)
	}
	h.set(func(u *settings.Units) { u.Features.StorageAPIEnabled = true })
	h.setState(ann, person.Removed)
	for what := range h.dump() {
		if strings.HasPrefix(what, "identity_value/") {
			t.Errorf("the person is removed, and %q is kept", what)
		}
	}
	if a := h.send(http.MethodPut, of+"/theme", "1"); a.status() != http.StatusNotFound {
		t.Errorf("for a person who was removed: %d", a.status())
	}
}

// TestStorageIsFull: a program that stores without end, on many connections at once, fills nothing.
func TestStorageIsFull(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	of := "/api/storage/" + h.add(person.NewPerson{Username: "ann@example.com"}) + "/"
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for i := range 80 {
		all.Go(func() {
			a := h.send(http.MethodPut, fmt.Sprint(of, i), "1")
			mu.Lock()
			defer mu.Unlock()
			count[a.status()]++
		})
	}
	all.Wait()
	if count[http.StatusNoContent] != 64 || count[http.StatusConflict] != 16 {
		t.Errorf("answers = %v, want 64 values and 16 refusals", count)
	}
	h.send(http.MethodDelete, strings.TrimSuffix(of, "/"), "")
	big := `"` + strings.Repeat("x", 16<<10-2) + `"`
	for i, want := range []int{204, 204, 204, 409} {
		if a := h.send(http.MethodPut, fmt.Sprint(of, i), big); a.status() != want {
			t.Errorf("value %d of 16 KiB = %d, want %d", i, a.status(), want)
		}
	}
	if a := h.send(http.MethodPut, of+"0", big); a.status() != http.StatusNoContent {
		t.Errorf("in place of another one = %d", a.status())
	}
}
