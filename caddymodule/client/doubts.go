package client

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Doubts returns what is allowed and probably not meant: times that never come, secrets that can be guessed or by which
// one client can pass for another, and patterns that no token of a trusted issuer fits.
func Doubts(clients []*client.Client, apis []*client.APIClient, trusted []workload.Rule) (out []caddyfileutil.Fault) {
	first := map[string]string{}
	for _, c := range clients {
		of := "client " + c.ID
		out = append(out, doubtLifetimes(c, of+": lifetimes ")...)
		out = append(out, doubtTokens(c, of+": token_alg")...)
		out = append(out, doubtSecrets(of, c.ID, c.Secrets, c.SecretHashes, first)...)
	}
	for _, c := range apis {
		out = append(out, doubtSecrets("api_client "+c.ID, c.ID, c.Secrets, c.SecretHashes, first)...)
	}
	for i := range trusted {
		out = append(out, doubtMatches(&trusted[i])...)
	}
	return out
}

func doubtLifetimes(c *client.Client, of string) (out []caddyfileutil.Fault) {
	never := func(option, format string, args ...any) {
		out = append(out, caddyfileutil.Fault{
			Option: of + option, Reason: of + option + ": " + fmt.Sprintf(format, args...),
			Fix: "make it shorter, or the other one longer",
		})
	}
	l, full := c.Lifetimes, c.WithDefaults().Lifetimes
	if l.RefreshToken > full.RefreshChain {
		never("refresh_token", "%s are never reached, since refresh_chain ends all of them after %s", l.RefreshToken, full.RefreshChain)
	}
	if l.RefreshGrace >= full.RefreshToken {
		never("refresh_grace", "%s are never reached, since a refresh token ends after %s", l.RefreshGrace, full.RefreshToken)
	}
	return out
}

// maxHeaderLine is the longest header line that nginx takes by default.
const maxHeaderLine = 8 << 10

// doubtTokens looks at the size of access tokens, which are sent in a header.
func doubtTokens(c *client.Client, option string) []caddyfileutil.Fault {
	alg, size := c.SignsTokensWith(), c.LongestToken()
	if c.TokenFormat != client.FormatJWT || !jwa.IsPostQuantum(alg) || size <= maxHeaderLine {
		return nil
	}
	return []caddyfileutil.Fault{{
		Option: option,
		Reason: fmt.Sprintf("%s: with all scopes and audiences of the client, an access token signed by %s "+
			"makes a header of about %d bytes: nginx refuses more than %d by default, Caddy takes it", option, alg, size, maxHeaderLine),
		Fix: "choose ML-DSA-44, give the client fewer scopes and audiences, or raise large_client_header_buffers in nginx",
	}}
}

// doubtSecrets looks at the secrets of one client. first are the clients by their secrets, so far.
func doubtSecrets(of, id string, secrets []secret.String, hashes []string, first map[string]string) (out []caddyfileutil.Fault) {
	say := func(option, reason string) {
		out = append(out, caddyfileutil.Fault{
			Option: of + ": " + option, Reason: of + ": " + reason,
			Fix: "`caddy gatehouse secret` prints a good one",
		})
	}
	kept := func(option, text string) {
		if by := first[text]; by != "" && by != of {
			say(option, by+" has the same secret, so each can pass for the other")
			return
		}
		first[text] = of
	}
	for _, s := range secrets {
		kept("secret", s.Reveal())
		if guessable(s.Reveal(), id) {
			say("secret", "its secret is made of its id or of few characters, and can be guessed")
		}
	}
	for _, hash := range hashes {
		kept("secret_hash", hash)
	}
	return out
}

func doubtMatches(r *workload.Rule) (out []caddyfileutil.Fault) {
	for _, m := range r.Match {
		for _, pattern := range m.Patterns {
			if instead := workload.Longer(m.Claim, pattern); instead != "" {
				option := "trust_issuer " + r.Issuer + ": match"
				const reason = "%s %s %s: subjects that begin so have more parts between colons, and a * does not stand for a colon, so the pattern fits no token"
				out = append(out, caddyfileutil.Fault{
					Option: option, Reason: fmt.Sprintf(reason, option, m.Claim, pattern),
					Fix: "write for example " + instead,
				})
			}
		}
	}
	return out
}

// guessable reports whether little is left of a secret without the id and the usual words, or without what is repeated.
func guessable(text, id string) bool {
	rest, different := strings.ToLower(text), map[rune]bool{}
	for _, word := range []string{strings.ToLower(id), "secret", "password", "client"} {
		if len(word) > 2 {
			rest = strings.ReplaceAll(rest, word, "")
		}
	}
	left := 0
	for _, c := range rest {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			left++
			different[c] = true
		}
	}
	return left < 16 || len(different) < 6
}
