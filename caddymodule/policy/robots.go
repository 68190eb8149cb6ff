package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Robots are callers that sign their requests by a key of their domain. (package botauth) Rules know them in two ways:
// match agent and match robot choose the requests of robots, and need agent asks for one, with no sign-in.

// checkAgent checks the domain of a robot, or *. and a domain for those below it.
func checkAgent(domain string) error {
	host := strings.TrimPrefix(domain, "*.")
	name, _, _ := strings.Cut(host, ":")
	if caddyfileutil.HasPlaceholder(domain) {
		return nil
	}
	if host != strings.ToLower(host) || strings.ContainsAny(host, "*/@ ?#") || !strings.Contains(name, ".") && name != "localhost" {
		return fmt.Errorf("%q is not the domain of a robot: write for example bot.example.com, or *.example.com for those below it", domain)
	}
	return nil
}

// isAgent reports whether a robot is of one of these domains. domain "": no robot has signed the request.
func isAgent(domains []string, domain string) bool {
	return domain != "" && slices.ContainsFunc(domains, func(of string) bool {
		below, wild := strings.CutPrefix(of, "*")
		return of == domain || wild && strings.HasSuffix(domain, below)
	})
}

// asksRobots reports whether the rule depends on which robot has signed a request.
func (r *Rule) asksRobots() bool { return r.Robot || len(r.Agents)+len(r.Need.Agents) > 0 }

// isAbout reports whether the rule is about the requests of a robot, or of everyone.
func (r *Rule) isAbout(agent string) bool {
	return (!r.Robot || agent != "") && (len(r.Agents) == 0 || isAgent(r.Agents, agent))
}

// Wants reports whether a rule asks for the robots of a domain, and whether one names it.
func (p *Policy) Wants(domain string) (wanted, named bool) {
	for _, r := range p.rules() {
		named = named || isAgent(r.Agents, domain) || isAgent(r.Need.Agents, domain)
		wanted = wanted || named || r.Robot
	}
	return wanted, named
}

// readMatch reads a line or block of matchers, and takes those out that are about robots.
func (r *Rule) readMatch(match MatcherTokens) caddyfileutil.Subdirective {
	return func(d *caddyfile.Dispenser) error {
		if err := match.Read(d); err != nil {
			return err
		}
		for _, word := range []string{"agent", "robot"} {
			tokens := match[word]
			if delete(match, word); tokens == nil {
				continue
			}
			domains := caddyfile.NewDispenser(tokens)
			for domains.Next() {
				args := domains.RemainingArgs()
				switch {
				case word == "robot" && len(args) > 0:
					return caddyfileutil.At(tokens[0], fmt.Errorf("match robot: unexpected argument %q: name domains by match agent", args[0]))
				case word == "robot":
					r.Robot = true
					continue
				case len(args) == 0:
					return caddyfileutil.At(tokens[0], fmt.Errorf("match agent: name the domain of a robot, or match robot for all"))
				}
				for _, domain := range args {
					if err := checkAgent(domain); err != nil {
						return caddyfileutil.At(tokens[0], fmt.Errorf("match agent: %w", err))
					}
				}
				r.Agents = append(r.Agents, args...)
			}
		}
		return nil
	}
}
