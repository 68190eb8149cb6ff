package cli

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

func explainCommand() *cobra.Command {
	var in adminapi.ExplainRequest
	var headers []string
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Shows what a request would get, and which rule decides",
		Long: `Shows what a request would get at a site of the running server: how each rule of the site stands to it, which
one decides and where it is written, what was known of the caller, which headers would go to the upstream, and
what the client would see. Nothing is sent to the upstream and nothing is stored. Without --person, --client and
--token the caller is a stranger. A person counts as signed in in a browser, as in the strongest of their
sessions, or just now without one. --ref asks the request of a refusal again, without its query and
headers, and says what it would get now. For a site that another proxy serves, the forward_auth of its address
decides, or the one that --gate names.`,
		Example: "  caddy gatehouse explain --person ada --url https://wiki.example.com/admin --method POST",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.URL == "" && in.Ref == "" {
				return fmt.Errorf("say which request is meant: --url https://wiki.example.com/admin, or --ref with the reference of a refusal")
			}
			in.Headers = http.Header{}
			for _, h := range headers {
				name, value, ok := strings.Cut(h, ":")
				if !ok {
					return fmt.Errorf("--header: want a name and a value, as in \"Accept: application/json\", not %q", h)
				}
				in.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
			}
			var a adminapi.ExplainAnswer
			if err := call(cmd, "/explain", in, &a); err != nil {
				return err
			}
			var lines []string
			if a.Refused != nil {
				lines = append(lines, a.Refused.At.Format(time.RFC3339)+"  "+a.Refused.Sentence, "now:")
			}
			return printResult(cmd, a, append(lines, answerLines(a.Method+" "+a.URL, a.Answer)...)...)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.URL, "url", "", "The whole address, such as https://wiki.example.com/admin")
	f.StringVar(&in.Method, "method", "", "The method. Default: GET")
	f.StringVar(&in.IP, "ip", "", "The address of the client. Default: "+explain.DefaultIP+", which belongs to no machine")
	f.StringArrayVar(&headers, "header", nil, `A header, as "Name: value". Can be repeated`)
	f.StringVar(&in.Person, "person", "", "The person, by username or id")
	f.StringVar(&in.Client, "client", "", "A client: with a token of its own, or with one of the person")
	f.StringSliceVar(&in.Scopes, "scopes", nil, "The scopes of that token, with commas between")
	f.StringVar(&in.Token, "token", "", "An access token. It is not used up")
	f.IntVar(&in.Level, "level", 0, "The level of the sign-in, 1 to 4")
	f.StringVar(&in.Age, "age", "", "How long ago the sign-in was, such as 2h")
	f.StringVar(&in.At, "at", "", "The time of the request, such as 2026-11-22T18:30:00+01:00. Default: now")
	f.StringVar(&in.Gate, "gate", "", "The forward_auth or policy that another proxy asks for. Default: the forward_auth of the address")
	f.StringVar(&in.Ref, "ref", "", "The reference of a refusal")
	completeFlag(cmd, "person", completeAnyPerson)
	completeFlag(cmd, "client", completeClients)
	return cmd
}

// verdicts explain the verdicts of a rehearsal.
var verdicts = map[protect.Verdict]string{
	protect.Open: "it passes without a sign-in", protect.Allow: "it passes", protect.SignIn: "it needs a sign-in, or a valid token",
	protect.StepUp: "it needs a stronger sign-in", protect.Again: "it needs a more recent sign-in", protect.Wait: "it has to wait",
	protect.Deny: "it is refused", protect.Invalid: "it is refused for everyone",
}

// answerLines is an answer as text.
func answerLines(request string, a *explain.Answer) []string {
	var f fields
	f.add("verdict", "%s: %s", a.Verdict, verdicts[a.Verdict])
	f.add("request", "%s", request)
	f.add("caller", "%s", callerText(a.Caller))
	f.add("gate", "%s", a.Gate)
	lines := f.lines()
	for i := range a.Steps {
		lines = append(lines, stepLines(&a.Steps[i])...)
	}
	var end fields
	if a.Handler != "" {
		end.add("goes on to", "%s", a.Handler)
	}
	if a.Status != 0 {
		end.add("client sees", "%s", strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, a.Error)))
		end.add("challenge", "%s", a.Challenge)
		end.add("message", "%s", a.Message)
	}
	for _, n := range a.Notes {
		end.add("note", "%s", n)
	}
	return append(lines, end.lines()...)
}

func callerText(c *explain.Facts) string {
	if c == nil {
		return "a stranger"
	}
	s := cmp.Or(c.Username, c.PersonID)
	if s == "" {
		s = "client " + c.ClientID
	}
	facts := []string{"by " + c.By}
	for _, f := range []struct{ name, value string }{
		{"groups", strings.Join(c.Groups, ",")}, {"scopes", strings.Join(c.Scopes, " ")}, {"provider", c.Provider}, {"signed in", c.SignedIn},
	} {
		if f.value != "" {
			facts = append(facts, f.name+" "+f.value)
		}
	}
	if c.Level > 0 {
		facts = append(facts, fmt.Sprintf("level %d", c.Level))
	}
	if c.Assurance > 0 {
		facts = append(facts, fmt.Sprintf("identity assurance level %d", c.Assurance))
	}
	return s + " (" + strings.Join(facts, "; ") + ")"
}

func stepLines(s *protect.Rehearsal) []string {
	line := "protect"
	if s.Place != "" {
		line += " at " + s.Place
	}
	line += ": " + string(s.Verdict)
	if s.Why != "" {
		line += ", " + s.Why
	}
	if s.WantedLevel > 0 {
		line += fmt.Sprintf(" (level %d)", s.WantedLevel)
	}
	lines := []string{"", line}
	for _, r := range s.Rules {
		mark := " "
		if r.Decides {
			mark = ">"
		}
		text := fmt.Sprintf("%s %-5s %s: %s", mark, r.Kind, r.Rule, r.Fit)
		if r.Place != "" && !strings.HasSuffix(r.Rule, r.Place) {
			text += " (" + r.Place + ")"
		}
		lines = append(lines, text)
	}
	for _, l := range s.Limits {
		mark := " "
		if l.Refuses {
			mark = ">"
		}
		lines = append(lines, fmt.Sprintf("%s %s: %d left, all of it again in %s", mark, l.Limit, l.Remaining, time.Duration(l.Reset)*time.Second))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		lines = append(lines, "  "+name+": "+s.Headers[name])
	}
	return append(lines, "")
}
