package caddymodule

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// checkValues finds values that are allowed each and contradict each other, and those that give something away.
func (a *App) checkValues() {
	a.checkLasting()
	a.checkSecrets()
	for i := range a.persons.Providers {
		id := a.persons.Providers[i].ID
		if u, err := url.Parse(a.idps.Address(id)); err == nil && u.Host != "" && strings.EqualFold(u.Host, a.issuer.Host) {
			a.warn(kindIDP+" "+id, kindIDP+" "+id+": it is this issuer itself, so a sign-in there would never end", "name the provider elsewhere, or remove the block: the accounts here need none")
		}
	}
}

// checkLasting finds times that never come, since another one is over before.
func (a *App) checkLasting() {
	never := func(option, reason string) {
		a.warn(option, option+": "+reason, "make it shorter, or the other one longer")
	}
	const day = 24 * time.Hour
	s := a.persons.Session
	absolute, remember := cmp.Or(s.Absolute, 12*time.Hour), cmp.Or(s.Remember, 30*day)
	if s.Idle > absolute {
		never("identity: session idle", fmt.Sprintf("%s without use are never reached, since every sign-in ends after %s", s.Idle, absolute))
	}
	if remember < absolute {
		never("identity: session absolute", fmt.Sprintf("people who ask to stay signed in stay for %s, and all others for %s", remember, absolute))
	}
	for _, c := range a.authz.Clients {
		of, l, full := "client "+c.ID+": lifetimes ", c.Lifetimes, c.WithDefaults().Lifetimes
		if l.RefreshToken > full.RefreshChain {
			never(of+"refresh_token", fmt.Sprintf("%s are never reached, since refresh_chain ends all of them after %s", l.RefreshToken, full.RefreshChain))
		}
		if l.RefreshGrace >= full.RefreshToken {
			never(of+"refresh_grace", fmt.Sprintf("%s are never reached, since a refresh token ends after %s", l.RefreshGrace, full.RefreshToken))
		}
	}
}

// checkSecrets finds secrets that can be guessed, and those by which one client can pass for another.
func (a *App) checkSecrets() {
	const mend = "`caddy gatehouse secret` prints a good one"
	first := map[string]string{}
	each := func(of, id string, secrets []secret.String, hashes []string) {
		kept := func(option, text string) {
			if by := first[text]; by != "" && by != of {
				a.warn(of+": "+option, fmt.Sprintf("%s: %s has the same secret, so each can pass for the other", of, by), mend)
				return
			}
			first[text] = of
		}
		for _, s := range secrets {
			kept("secret", s.Reveal())
			if guessable(s.Reveal(), id) {
				a.warn(of+": secret", of+": its secret is made of its id or of few characters, and can be guessed", mend)
			}
		}
		for _, hash := range hashes {
			kept("secret_hash", hash)
		}
	}
	for _, c := range a.authz.Clients {
		each("client "+c.ID, c.ID, c.Secrets, c.SecretHashes)
	}
	for _, c := range a.authz.APIClients {
		each("api_client "+c.ID, c.ID, c.Secrets, c.SecretHashes)
	}
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

// appPasswordsOff is the finding of a site that accepts app passwords while there are none.
func appPasswordsOff(place string) finding.Finding {
	return finding.Finding{
		Severity: finding.Warning, Place: place, Reason: "protect: accept: app passwords are switched off, so the site takes none",
		Mend: "write `app_passwords on` in `identity` or switch them on in the settings, or remove `accept`",
	}
}
