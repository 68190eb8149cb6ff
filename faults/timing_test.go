package faults

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const samples = 10_000

// timing sends two kinds of requests in random order and checks whether the response times differ.
func timing(t *testing.T, rep *report) {
	s := start(t, lab.Config{Gatehouse: fmt.Sprintf(
		"\t\tclient gone {\n\t\t\tsecret %s\n\t\t\tredirect_uris %s\n\t\t\tgrants authorization_code\n\t\t\tscopes openid\n\t\t\tdisabled\n\t\t}",
		strings.Repeat("g", 40), lab.Callback)}, 1)
	issue := func() string { return s.Server.Issue(t.Context()).Text("access_token") }
	live, dead := issue(), issue()
	if a := s.Server.Revoke(t.Context(), lab.MachineID, dead); a.Err != nil || a.Status != 200 {
		t.Fatalf("Revoke = %d: %v", a.Status, a.Err)
	}
	authorize := func(client string) func() []byte {
		q := url.Values{"response_type": {"code"}, "client_id": {client}, "redirect_uri": {lab.Callback}}
		return fixed(lab.Request("GET", s.host(), "/oauth/authorize?"+q.Encode(), ""))
	}
	token := func(id, secret string) func() []byte {
		return fixed(lab.Request("POST", s.host(), "/oauth/token", "grant_type=client_credentials", "Authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret))))
	}
	ask := func(tok func() string) func() []byte {
		auth := "Basic " + base64.StdEncoding.EncodeToString([]byte(lab.APIID+":"+s.Server.API))
		return func() []byte {
			return lab.Request("POST", s.host(), "/oauth/api/v2/token/introspect", "token="+tok(), "Authorization", auth)
		}
	}
	wrong := strings.Repeat("x", len(s.Server.Machine))
	near := s.Server.Machine[:len(s.Server.Machine)-1] + "~"
	for _, c := range []struct {
		name string
		a, b func() []byte
	}{
		{"attack 13: time of an unknown client and a disabled one", authorize("lost"), authorize("gone")},
		{"attack 56,74: time of an unknown client and a wrong secret", token("lost", wrong), token(lab.MachineID, wrong)},
		{"attack 56,74: time of a disabled client and a wrong secret", token("gone", wrong), token(lab.MachineID, wrong)},
		{"attack 74: time of a wrong secret and one with the right beginning", token(lab.MachineID, wrong), token(lab.MachineID, near)},
		{"attack 87: time of an unknown token and a revoked one", ask(unknownToken), ask(func() string { return dead })},
		{"attack 94: time of tokens near a real one and of any others", ask(func() string { return nearMiss(live) }), ask(unknownToken)},
	} {
		t.Run(c.name, func(t *testing.T) {
			auc, welch := s.tellApart(t, c.a, c.b)
			rep.add("%s: AUC %.3f, t %.1f", strings.SplitN(c.name, ":", 2)[0], auc, welch)
			if auc > 0.55 {
				t.Errorf("AUC = %.3f, want at most 0.55", auc)
			}
			if strings.HasPrefix(c.name, "attack 74") && welch > 4.5 {
				t.Errorf("t = %.1f, want under 4.5", welch)
			}
		})
	}
}

func fixed(b []byte) func() []byte { return func() []byte { return b } }

func (s setup) host() string { return fmt.Sprintf("localhost:%d", s.Server.Ports.Issuer) }

// unknownToken is well formed and was never issued.
func unknownToken() string {
	return withSum("ghat_" + base64.RawURLEncoding.EncodeToString(lab.Random(32)))
}

// nearMiss differs from a real token only at the end of the random part.
func nearMiss(issued string) string {
	body := []byte(issued[:len(issued)-6])
	for i := len(body) - 9; i < len(body)-1; i++ {
		body[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"[lab.Random(1)[0]%32]
	}
	return withSum(string(body))
}

// withSum adds the checksum that every token ends with, so the server looks it up.
func withSum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return body + base64.RawURLEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// tellApart measures both kinds in random order on one kept connection.
func (s setup) tellApart(t *testing.T, a, b func() []byte) (auc, welch float64) {
	t.Helper()
	times, _ := s.timesOf(t, samples, a, b)
	return AUC(times[0], times[1]), Welch(times[0], times[1])
}

// timesOf measures about n requests of each kind, in random order on one kept connection. All answers must have the
// same status, which it returns.
func (s setup) timesOf(t *testing.T, n int, kinds ...func() []byte) (times [][]time.Duration, status int) {
	t.Helper()
	c, err := lab.Dial(fmt.Sprintf("127.0.0.1:%d", s.Server.Ports.Issuer))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rnd := random()
	times = make([][]time.Duration, len(kinds))
	warm := n / 50
	for range len(kinds) * (n + warm) {
		which := rnd.IntN(len(kinds))
		raw := kinds[which]()
		begin := time.Now()
		st, err := c.Do(raw)
		took := time.Since(begin)
		if err != nil {
			t.Fatal(err)
		}
		if status == 0 {
			status = st
		}
		if st != status {
			t.Fatalf("the answers have the statuses %d and %d, want the same", status, st)
		}
		times[which] = append(times[which], took)
	}
	for i := range times {
		times[i] = times[i][warm:] // the first ones warm up
	}
	return times, status
}
