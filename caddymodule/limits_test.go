package caddymodule_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// counts returns how many of n requests pass.
func counts(t *testing.T, s *servertest.Server, token string, n int) (passed int) {
	t.Helper()
	for range n {
		switch got := s.Enters(token); got {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("status = %d, want 200 or 429", got)
		}
	}
	return passed
}

// TestLimitsOverReloads: a reload keeps what was counted by the limits that stay, wherever they are in the file, and
// begins again with others.
func TestLimitsOverReloads(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlimit 5/h per client\n\t}"
	s.MustLoad()
	token := s.Token()
	if n := counts(t, s, token, 3); n != 3 {
		t.Fatalf("%d of 3 passed", n)
	}
	s.Extra, s.Site = "scope another {\n\tdescription Lines before it.\n}", "# and here\n\tprotect orders.read {\n\t\tlimit 1000/s per ip\n\t\tlimit 5/h per client\n\t}"
	s.MustLoad()
	if n := counts(t, s, token, 5); n != 2 {
		t.Errorf("%d passed after the reload, want the 2 that were left", n)
	}
	s.Site = "protect orders.read {\n\t\tlimit 6/h per client\n\t}"
	s.MustLoad()
	if n := counts(t, s, token, 8); n != 6 {
		t.Errorf("%d passed with another limit, want 6", n)
	}
}

// TestLimitsOfSitesWithoutNames: each site keeps its counters over reloads, though Caddy provisions its servers in any
// order.
func TestLimitsOfSitesWithoutNames(t *testing.T) {
	s := servertest.NewServer(t)
	var ports []string
	for range 4 {
		_, port, _ := strings.Cut(servertest.FreeAddr(t), ":")
		ports = append(ports, port)
		s.Site += "respond \"in\"\n}\nhttp://:" + port + " {\n\tprotect orders.read {\n\t\tlimit 1000/h per client\n\t}\n\t"
	}
	s.MustLoad()
	token := s.Token()
	asks := func(port string) (left int) {
		t.Helper()
		r := s.Request(http.MethodGet, "http://localhost:"+port+"/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, _ := s.Do(r) //nolint:bodyclose // it is read and closed
		_, after, _ := strings.Cut(resp.Header.Get("RateLimit"), ";r=")
		text, _, _ := strings.Cut(after, ";")
		left, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("RateLimit of site %s = %q", port, resp.Header.Get("RateLimit"))
		}
		return left
	}
	for n := range 4 {
		for i, port := range ports {
			for range i + 1 {
				asks(port)
			}
			if left, want := asks(port), 1000-(n+1)*(i+2); left != want {
				t.Errorf("reload %d: %d are left at site %d, want %d", n, left, i, want)
			}
		}
		s.MustLoad()
	}
}

// TestQuotaOverRestarts: what was used of a quota is kept.
func TestQuotaOverRestarts(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tquota 4/12month per client\n\t}"
	s.MustLoad()
	token := s.Token()
	if n := counts(t, s, token, 3); n != 3 {
		t.Fatalf("%d of 3 passed", n)
	}
	s.Stop()
	s.MustLoad()
	if n := counts(t, s, token, 3); n != 1 {
		t.Errorf("%d passed after the restart, want the one that was left", n)
	}
	s.Stop()
	s.Site = "protect orders.read {\n\t\tquota 6/12month per client\n\t}"
	s.MustLoad()
	if n := counts(t, s, token, 3); n != 2 {
		t.Errorf("%d passed with a larger quota, want 2", n)
	}
}

// TestQuotaEvents: the events say once in a period that 80 and 100 percent of a quota are used, and by which client.
func TestQuotaEvents(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tquota 5/12month per client\n\t}"
	s.MustLoad()
	token := s.Token()
	for _, n := range []int{3, 1, 3, 3} {
		counts(t, s, token, n)
		s.Stop() // which writes what was counted
		s.MustLoad()
	}
	body := s.Run("", "events", "list", "--client", "reports")
	quota := " of 5/12month per client at " + s.API
	for _, want := range []string{"80%" + quota + ": 4 of 5", "100%" + quota + ": 5 of 5"} {
		if strings.Count(body, want) != 1 {
			t.Errorf("events = %s, want %q once", body, want)
		}
	}
}

// TestPlansOfTheCaddyfile: clients have the plan that they name at every site with plan.
func TestPlansOfTheCaddyfile(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = "plan gold {\n\tlimit 1000/s\n\tquota 4/12month\n}\nplan free {\n\tlimit 2/h\n\tdefault\n}\ngroup staff {\n\tplan gold\n}"
	s.Site = "protect orders.read {\n\t\tplan\n\t}"
	s.MustLoad()
	if n := counts(t, s, s.Token(), 4); n != 2 {
		t.Errorf("%d passed with the default plan, want 2", n)
	}
	s.Extra = strings.Replace(s.Extra, "\tdefault\n", "", 1)
	s.MustLoad()
	s.WantFinding("no plan is the default")
	s.Extra += "\nclient gilded {\n\tsecret " + servertest.TestSecret + "\n\tgrants client_credentials\n\tscopes orders.read\n\tdefault_scopes orders.read\n\tplan gold\n}"
	s.MustLoad()
	token := tokenOf(t, s, "gilded", servertest.TestSecret)
	if n := counts(t, s, token, 6); n != 4 {
		t.Errorf("%d passed with the plan gold, want 4", n)
	}
}

// TestLimitsAreExplained: explain says what is left, counts nothing, and why says which limit has refused a request.
func TestLimitsAreExplained(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlimit 2/h per client\n\t\tquota 10/12month per site\n\t}"
	s.MustLoad()
	token := s.Token()
	ask := func(wants ...string) {
		t.Helper()
		out := s.Run("", "explain", "--token", token, "--url", "http://"+s.API+"/")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("explain = %s, want %q in it", out, want)
			}
		}
	}
	for range 3 {
		ask("allow: it passes", "limit 2/h per client: 1 left", "quota 10/12month per site: 9 left")
	}
	if n := counts(t, s, token, 2); n != 2 {
		t.Errorf("%d of 2 passed: explain has counted", n)
	}
	ask("wait: it has to wait", "> limit 2/h per client: 0 left", "client sees  429")
	r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, body := s.Do(r) //nolint:bodyclose // it is read and closed
	ref := servertest.Decode[struct {
		Ref string `json:"ref"`
	}](t, body).Ref
	if out := s.Run("", "why", ref); !strings.Contains(out, "too many requests in a short time") || !strings.Contains(out, "limit 2/h per client") {
		t.Errorf("why = %s, want the limit", out)
	}
}

// TestLimitsAreListedAndLifted: the operator finds the callers above a limit and lets one of them go on once.
func TestLimitsAreListedAndLifted(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlimit 3/h per ip\n\t\tquota 2/12month per client\n\t}"
	s.MustLoad()
	token := s.Token()
	counts(t, s, token, 4)
	type use struct {
		ID, Limit, Kind, Caller string
		Used, Of                int64
	}
	list := func() map[string]use {
		out := map[string]use{}
		for _, u := range servertest.Decode[[]use](t, s.Run("", "limits", "list", "--json")) {
			out[u.Kind] = u
		}
		return out
	}
	near := list()
	ip, client := near["ip"], near["client"]
	if len(near) != 2 || ip.Caller != "127.0.0.1" || ip.Used != 3 || client.Caller != "reports" || client.Used != 2 ||
		client.Limit != "2/12month per client at "+s.API {
		t.Fatalf("limits list = %+v, want the address and the client", near)
	}
	s.Run("", "limits", "lift", ip.ID)
	if n := counts(t, s, token, 1); n != 0 {
		t.Error("the quota was lifted with the limit of the address")
	}
	s.Run("", "limits", "lift", client.ID)
	events := s.Run("", "events", "list", "--type", "quota.LimitLiftedEvent", "--client", "reports")
	if strings.Count(events, "Limit Lifted") != 1 || !strings.Contains(events, "2/12month per client at "+s.API+": 2 of 2") {
		t.Errorf("events = %s, want the one of the client, with its quota", events)
	}
	if n := counts(t, s, token, 3); n != 2 {
		t.Errorf("%d passed after both were lifted, want the 2 of the quota that the address can still send", n)
	}
	s.Refused("no one is counted", "", "limits", "lift", "12.34.no")
	s.Refused("no one is counted", "", "limits", "lift", "ff.00000000000000000000000000000000.shop")
}

// TestLimitMistakes: each mistake is an error with file and line.
func TestLimitMistakes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ global, site, want string }{
		"nothing":                 {"", "limit", "want a number and a period"},
		"no kind of caller":       {"", "limit 100/min", "say which callers it counts"},
		"an unknown unit":         {"", "limit 100/week per client", `the unit "week" is unknown`},
		"no number":               {"", "limit per client", "want a number and a period, such as 100/min"},
		"a misspelt word":         {"", "limit 100/min per cleint", "did you mean client?"},
		"another word":            {"", "limit 100/min each client", `unexpected "each"`},
		"a claim without a name":  {"", "limit 100/min per claim", "the name of the claim is missing"},
		"per twice":               {"", "limit 100/min per client per person", "per is already set"},
		"a burst of nothing":      {"", "limit 100/min per client burst 0", "burst"},
		"a burst without a value": {"", "limit 100/min per client burst", "burst: a value is missing"},
		"a month":                 {"", "limit 100/month per client", "months are for a quota"},
		"a quota of addresses":    {"", "quota 100/d per ip", "per ip is for limits"},
		"a quota with a burst":    {"", "quota 100/d per client burst 3", "burst is for limits"},
		"an unknown matcher":      {"", "limit 100/min per client {\n\t\t\tmatch groups staff\n\t\t}", "need groups staff"},
		"an unknown option":       {"", "limit 100/min per client {\n\t\t\tonly method POST\n\t\t}", `unrecognized subdirective "only"`},
		"no plans":                {"", "plan", "there are no plans"},
		"a plan of addresses":     {"plan gold {\n\t\t\tlimit 1/s per ip\n\t\t}", "", "a plan counts its holders"},
		"an empty plan":           {"plan gold {\n\t\t\tdefault\n\t\t}", "", "neither a limit nor a quota"},
		"two defaults":            {"plan a {\n\t\t\tlimit 1/s\n\t\t\tdefault\n\t\t}\n\t\tplan b {\n\t\t\tlimit 1/s\n\t\t\tdefault\n\t\t}", "", "a is the default already"},
		"a plan that is nowhere":  {"plan gold {\n\t\t\tlimit 1/s\n\t\t}\n\t\tgroup staff {\n\t\t\tplan gould\n\t\t}", "", "did you mean gold?"},
		"a client of no plan":     {"plan gold {\n\t\t\tlimit 1/s\n\t\t}\n\t\tclient a {\n\t\t\tpublic\n\t\t\tredirect_uris https://a.example.com/\n\t\t\tgrants authorization_code\n\t\t\tplan silver\n\t\t}", "", "there is no plan silver"},
		"a group without a plan":  {"group staff {\n\t\t}", "", "plan is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "{\n\tgatehouse {\n\t\tissuer https://auth.example.com\n\t\t" + tt.global + "\n\t}\n}\nauth.example.com {\n\tgatehouse\n}\n" +
				"api.example.com {\n\tprotect {\n\t\t" + tt.site + "\n\t}\n}\n"
			raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			if err == nil {
				err = servertest.Validate(t, raw)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("the error is %v, want %q, file and line", err, tt.want)
			}
		})
	}
}

// TestUsageOfClients: what passes and what a limit refuses is counted for the client, once for several protects.
func TestUsageOfClients(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlimit 3/h per client\n\t}\n\troute {\n\t\tprotect orders.read\n\t}"
	s.MustLoad()
	if n := counts(t, s, s.Token(), 5); n != 3 {
		t.Fatalf("%d passed, want 3", n)
	}
	s.Enters("nonsense")
	s.Stop() // which writes what was counted
	s.MustLoad()
	type row struct {
		Day, Site         string
		Client            string `json:"client_id"`
		Requests, Limited int64
	}
	rows := servertest.Decode[[]row](t, s.Run("", "limits", "usage", "--json"))
	if want := (row{rows[0].Day, s.API, "reports", 3, 2}); len(rows) != 1 || rows[0] != want {
		t.Errorf("usage = %+v, want %+v alone", rows, want)
	}
	if out := s.Run("", "limits", "usage", "--csv", "--client", "reports"); !strings.Contains(out, ",reports,"+s.API+",3,2\r\n") {
		t.Errorf("the file is %q", out)
	}
	if out := s.Run("", "limits", "usage", "--to", "2020-01-31"); strings.Contains(out, "reports") {
		t.Errorf("usage until 2020 = %s", out)
	}
	s.Refused("from must be a day", "", "limits", "usage", "--from", "soon")
}

// TestPlansOfStoredClients: clients that are added by command have a plan and a contact, who is told by e-mail that a
// quota is nearly used up, and a plan that is not there is refused or found.
func TestPlansOfStoredClients(t *testing.T) {
	s := servertest.NewServer(t)
	address, mails := servertest.Mailbox(t)
	s.Extra = "plan gold {\n\tquota 5/12month\n}\nplan free {\n\tlimit 2/h\n\tdefault\n}\nmail smtp " + address +
		" {\n\tfrom gate@example.com\n}"
	s.Site = "protect orders.read {\n\t\tplan\n\t}"
	s.MustLoad()
	s.Refused("there is no plan gould: known are free, gold", "", "client", "add", "made", "--grants", "client_credentials",
		"--scopes", "orders.read", "--plan", "gould")
	s.Refused("is not an e-mail address", "", "client", "add", "made", "--grants", "client_credentials", "--contact", "ann")
	added := servertest.Decode[struct{ Secret string }](t, s.Run("", "client", "add", "made", "--grants", "client_credentials",
		"--scopes", "orders.read", "--plan", "gold", "--contact", "ann@example.com", "--json"))
	token := tokenOf(t, s, "made", added.Secret)
	if n := counts(t, s, token, 4); n != 4 {
		t.Errorf("%d of 4 passed with the plan gold", n)
	}
	mail := <-mails
	for _, want := range []string{"ann@example.com", "made has used 80 percent of a quota", "5/12month of the plan gold", "4 of 5"} {
		if !strings.Contains(mail, want) {
			t.Errorf("the mail lacks %q:\n%s", want, mail)
		}
	}
	s.Refused("there is no plan silver", "", "client", "set", "made", "--plan", "silver")
	s.Run("", "client", "set", "made", "--plan", "")
	if n := counts(t, s, token, 4); n != 2 {
		t.Errorf("%d passed without a plan, want the 2 of the default", n)
	}
	s.Run("", "client", "set", "made", "--plan", "gold")
	s.Extra = strings.Replace(s.Extra, "plan gold {", "plan golden {", 1)
	s.MustLoad()
	s.WantFinding("client made: there is no plan gold")
}

// TestShadowLimits: a limit that is tried refuses no one, counts for itself, and who would have had to wait is listed.
func TestShadowLimits(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\tlimit 100/h per client\n\t\tshadow {\n\t\t\tlimit 2/h per client {\n\t\t\t\tmatch method GET\n\t\t\t}\n\t\t}\n\t}"
	s.MustLoad()
	if n := counts(t, s, s.Token(), 5); n != 5 {
		t.Errorf("%d of 5 passed: a limit that is tried has refused", n)
	}
	s.Enters("nonsense")
	s.Stop() // which writes the decisions
	s.MustLoad()
	out := s.Run("", "policy", "diff", "--since", "1h")
	for _, want := range []string{"2/h per client", "wait", "reports"} {
		if !strings.Contains(out, want) {
			t.Errorf("policy diff lacks %q:\n%s", want, out)
		}
	}
	s.Run("", "policy", "diff", "--since", "1h", "--json")
	if out := s.Run("", "explain", "--token", s.Token(), "--url", "http://"+s.API+"/"); !strings.Contains(out, "99 left") &&
		!strings.Contains(out, "limit 100/h per client: 9") || strings.Contains(out, "2/h") {
		t.Errorf("explain = %s, want the limit that holds alone", out)
	}
}

// tokenOf returns an access token of a client for itself.
func tokenOf(t *testing.T, s *servertest.Server, client, secret string) string {
	t.Helper()
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, secret)
	_, body := s.Do(r) //nolint:bodyclose // it is read and closed
	return servertest.Decode[struct {
		Token string `json:"access_token"`
	}](t, body).Token
}
