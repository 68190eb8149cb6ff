package roles_test

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
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
func counted(s *servertest.Server, query string) map[string]int {
	s.T.Helper()
	res, body := asked(s, "counts", query)
	if res.StatusCode != http.StatusOK {
		s.T.Fatalf("statistics of %s = %d %s", query, res.StatusCode, body)
	}
	out := map[string]int{}
	for _, one := range servertest.Decode[statistics](s.T, body).Series {
		out[one.Name] = one.Total
	}
	return out
}

func asked(s *servertest.Server, client, query string) (*http.Response, string) {
	s.T.Helper()
	r := s.Request(http.MethodGet, s.Issuer()+"/api/v1/statistics"+query, nil)
	r.SetBasicAuth(client, statisticsSecret)
	return s.Do(r)
}

// TestStatistics: an operator reads how many people have signed in, where, and at which sites they were refused; a
// restart loses nothing of it.
func TestStatistics(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "person guest@example.com {\n\t\tpassword \"" + servertest.TestPassword + "\"\n\t\tgroups guests\n\t}"
	w.Extra += "\napi_client counts {\n\t\tsecret " + statisticsSecret + "\n\t\tapis statistics\n\t}\n\tapi_client reads {\n\t\tsecret " +
		statisticsSecret + "\n\t\tapis events\n\t}\n"
	w.Reload()
	typed := func(name, password string) {
		t.Helper()
		b := servertest.NewBrowser(t)
		res, body := b.Open(w.Wiki + "/")
		b.Submit(res, body, url.Values{"username": {name}, "password": {password}})
	}
	typed("guest@example.com", servertest.TestPassword) // and is refused there: in none of the groups
	typed("guest@example.com", "a wrong one")
	typed("demo@example.com", servertest.TestPassword)
	typed("demo@example.com", servertest.TestPassword)
	site := strings.TrimPrefix(w.Wiki, "http://")
	servertest.Eventually(t, "all is counted", func() bool {
		return counted(w.Server, "/sign_ins")[""] == 3 && counted(w.Server, "/failed_sign_ins?unit=minute&by=provider")["identity"] == 1 &&
			counted(w.Server, "/active_persons")[""] == 2 && len(counted(w.Server, "/denials?by=site")) > 0 &&
			counted(w.Server, "/decisions")[""] > 2
	})
	if by := counted(w.Server, "/sign_ins?by=provider&unit=hour"); by["identity"] != 3 || len(by) != 1 {
		t.Errorf("sign-ins by provider = %v", by)
	}
	if by := counted(w.Server, "/denials?by=site&unit=minute"); len(by) != 1 || by[site] != 1 && by[strings.Split(site, ":")[0]] != 1 {
		t.Errorf("denials by site = %v, want one of %s", by, site)
	}
	if res, body := asked(w.Server, "counts", ""); res.StatusCode != http.StatusOK || !strings.Contains(body, `"new_accounts"`) {
		t.Errorf("the measures = %d %s", res.StatusCode, body)
	}
	res, body := asked(w.Server, "counts", "/sign_ins?by=provider&unit=minute&format=csv")
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || res.StatusCode != http.StatusOK || len(rows) < 60 || rows[0][0] != "start" ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("a table = %d, %d rows, %v: %.200s", res.StatusCode, len(rows), err, body)
	}
	for query, want := range map[string]int{
		"/logins": 400, "/sign_ins?by=site": 400, "/sign_ins?unit=year": 400, "/sign_ins?since=now": 400, "/sign_ins?format=xml": 400,
		"/sign_ins?by=provider&by=provider":                400,
		"/sign_ins?unit=minute&since=2026-01-01T00:00:00Z": 400, "/a/b": 404,
	} {
		if res, body := asked(w.Server, "counts", query); res.StatusCode != want || !strings.Contains(body, "error_message") {
			t.Errorf("%s = %d %s, want %d in words", query, res.StatusCode, body, want)
		}
	}
	if res, _ := asked(w.Server, "reads", "/sign_ins"); res.StatusCode != http.StatusForbidden {
		t.Errorf("an API client without this API gets %d", res.StatusCode)
	}
	if res, _ := w.Get("/api/v1/statistics/sign_ins"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", res.StatusCode)
	}
	w.Stop()
	w.Reload()
	if n := counted(w.Server, "/sign_ins")[""]; n != 3 {
		t.Errorf("%d sign-ins after a restart, want 3", n)
	}
	w.Run(`{"features":{"statistics_api_enabled":false}}`, "config", "import", "-")
	if res, body := asked(w.Server, "counts", "/sign_ins"); res.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "1001") {
		t.Errorf("switched off: %d %s", res.StatusCode, body)
	}
}
