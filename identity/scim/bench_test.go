package scim_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

const benchUsers = 100_000

// benchHarness has 100,000 persons, one in a thousand of them in a department of its own.
func benchHarness(b *testing.B) *harness {
	b.Helper()
	h := newHarness(b)
	var workers sync.WaitGroup
	for w := range 64 {
		workers.Go(func() {
			for i := w; i < benchUsers; i += 64 {
				n := person.NewPerson{
					Username: fmt.Sprintf("user%06d@example.com", i), GivenName: "Given", FamilyName: fmt.Sprintf("Family %d", i),
					Groups:    []string{"staff"},
					Directory: &person.Directory{ExternalID: fmt.Sprintf("e-%d", i), Title: fmt.Sprintf("Title %d", i%1000)},
				}
				if _, err := h.identity.Person.CreatePerson(b.Context(), n, audit.Actor{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	return h
}

// BenchmarkList measures requests to a directory of 100,000 persons.
func BenchmarkList(b *testing.B) {
	h := benchHarness(b)
	search := func(filter string) string { return "/Users?filter=" + url.QueryEscape(filter) }
	page := 0
	for _, c := range []struct {
		name string
		path func() string
	}{
		{"first page of 100", func() string { return "/Users?count=100" }},
		{"next page of 100", func() string { page++; return fmt.Sprintf("/Users?count=100&startIndex=%d", page%1000*100+1) }},
		{
			"page in the middle, found by counting",
			func() string { page += 7; return fmt.Sprintf("/Users?count=100&startIndex=%d", 50_000+page%100) },
		},
		{"userName eq", func() string { return search(`userName eq "USER050000@example.com"`) }},
		{"emails eq", func() string { return search(`emails eq "user050000@example.com"`) }},
		{"externalId eq", func() string { return search(`externalId eq "e-50000"`) }},
		{"title eq, by looking through all", func() string { return search(`title eq "Title 7"`) }},
		{"all by title", func() string { return "/Users?sortBy=title&count=100" }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, issuer+"/scim/v2"+c.path(), nil)
				r.Header.Set("Authorization", "Bearer good")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"userName"`) {
					b.Fatalf("%s: %d %.300s", c.name, w.Code, w.Body)
				}
			}
		})
	}
}

// BenchmarkCreate measures the creation of a new user, many at once.
func BenchmarkCreate(b *testing.B) {
	h := newHarness(b)
	var mu sync.Mutex
	n := 0
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			body := fmt.Sprintf(`{"schemas":["%s"],"userName":"u%d","name":{"givenName":"Anna"},"emails":[{"value":"u%d@example.com"}]}`,
				coreUser, n, n)
			mu.Unlock()
			r := httptest.NewRequest(http.MethodPost, issuer+"/scim/v2/Users", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer good")
			r.Header.Set("Content-Type", "application/scim+json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusCreated {
				b.Errorf("POST = %d %s", w.Code, w.Body)
			}
		}
	})
}
