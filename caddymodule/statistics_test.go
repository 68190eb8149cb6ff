package caddymodule_test

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const statisticsSecret = "the-secret-of-the-statistics-in-this-test"

type statistics struct {
	Measure, By, Unit string
	Starts            []string
	Series            []struct {
		Name   string
		Total  int
		Counts []int
	}
}

// counted asks the statistics API and returns the totals by name.
func (s *server) counted(query string) map[string]int {
	s.t.Helper()
	res, body := s.asked("counts", query)
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("statistics of %s = %d %s", query, res.StatusCode, body)
	}
	out := map[string]int{}
	for _, one := range decode[statistics](s.t, body).Series {
		out[one.Name] = one.Total
	}
	return out
}

func (s *server) asked(client, query string) (*http.Response, string) {
	s.t.Helper()
	r := s.request(http.MethodGet, s.issuer()+"/api/v1/statistics"+query, nil)
	r.SetBasicAuth(client, statisticsSecret)
	return s.do(r)
}

// TestStatistics: an operator reads how many people have signed in, where, and at which sites they were refused; a
// restart loses nothing of it.
func TestStatistics(t *testing.T) {
	w := newWalk(t)
	w.inIdentity = "person guest@example.com {\n\t\tpassword \"" + testPassword + "\"\n\t\tgroups guests\n\t}"
	w.extra += "\napi_client counts {\n\t\tsecret " + statisticsSecret + "\n\t\tapis statistics\n\t}\n\tapi_client reads {\n\t\tsecret " + statisticsSecret + "\n\t\tapis events\n\t}\n"
	w.reload()
	typed := func(name, password string) {
		t.Helper()
		b := newBrowser(t)
		res, body := b.open(w.wiki + "/")
		b.submit(res, body, url.Values{"username": {name}, "password": {password}})
	}
	typed("guest@example.com", testPassword) // and is refused there: in none of the groups
	typed("guest@example.com", "a wrong one")
	typed("demo@example.com", testPassword)
	typed("demo@example.com", testPassword)
	site := strings.TrimPrefix(w.wiki, "http://")
	eventually(t, "all is counted", func() bool {
		return w.counted("/sign_ins")[""] == 3 && w.counted("/failed_sign_ins?unit=minute&by=provider")["identity"] == 1 &&
			w.counted("/active_persons")[""] == 2 && len(w.counted("/denials?by=site")) > 0 && w.counted("/decisions")[""] > 2
	})
	if by := w.counted("/sign_ins?by=provider&unit=hour"); by["identity"] != 3 || len(by) != 1 {
		t.Errorf("sign-ins by provider = %v", by)
	}
	if by := w.counted("/denials?by=site&unit=minute"); len(by) != 1 || by[site] != 1 && by[strings.Split(site, ":")[0]] != 1 {
		t.Errorf("denials by site = %v, want one of %s", by, site)
	}
	if res, body := w.asked("counts", ""); res.StatusCode != http.StatusOK || !strings.Contains(body, `"new_accounts"`) {
		t.Errorf("the measures = %d %s", res.StatusCode, body)
	}
	res, body := w.asked("counts", "/sign_ins?by=provider&unit=minute&format=csv")
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || res.StatusCode != http.StatusOK || len(rows) < 60 || rows[0][0] != "start" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("a table = %d, %d rows, %v: %.200s", res.StatusCode, len(rows), err, body)
	}
	for query, want := range map[string]int{
		"/logins": 400, "/sign_ins?by=site": 400, "/sign_ins?unit=year": 400, "/sign_ins?since=now": 400, "/sign_ins?format=xml": 400, "/sign_ins?by=provider&by=provider": 400,
		"/sign_ins?unit=minute&since=2026-01-01T00:00:00Z": 400, "/a/b": 404,
	} {
		if res, body := w.asked("counts", query); res.StatusCode != want || !strings.Contains(body, "error_message") {
			t.Errorf("%s = %d %s, want %d in words", query, res.StatusCode, body, want)
		}
	}
	if res, _ := w.asked("reads", "/sign_ins"); res.StatusCode != http.StatusForbidden {
		t.Errorf("an API client without this API gets %d", res.StatusCode)
	}
	if res, _ := w.get("/api/v1/statistics/sign_ins"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", res.StatusCode)
	}
	w.stop()
	w.reload()
	if n := w.counted("/sign_ins")[""]; n != 3 {
		t.Errorf("%d sign-ins after a restart, want 3", n)
	}
	w.run(`{"features":{"statistics_api_enabled":false}}`, "config", "import", "-")
	if res, body := w.asked("counts", "/sign_ins"); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "1001") {
		t.Errorf("switched off: %d %s", res.StatusCode, body)
	}
}
