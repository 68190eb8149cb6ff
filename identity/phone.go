package identity

import (
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sentCodeLife is how long a code that is sent is good.
const sentCodeLife = 10 * time.Minute

// sendsTexts tells whether text messages are sent: there is something to send by, and it is switched on.
func (s *Service) sendsTexts(u *config.Units) bool { return s.SMS != nil && u.Features.SMSEnabled }

// parsePhone returns a telephone number in the form that text messages are sent to, as people write it in any country: with + or 00 and the code of the
// country. A number without them is nobody's: which country is meant is not known. (ITU-T E.164)
func parsePhone(typed string) (number string, ok bool) {
	typed = strings.TrimPrefix(strings.TrimSpace(typed), "tel:")
	if len(typed) > maxTag {
		return "", false
	}
	typed = strings.ReplaceAll(typed, "(0)", "")
	number = strings.Map(func(c rune) rune {
		if strings.ContainsRune(" \u00a0\u202f-‐‑–.()/", c) {
			return -1
		}
		return c
	}, typed)
	if rest, ok := strings.CutPrefix(number, "00"); ok {
		number = "+" + rest
	}
	return number, notify.IsNumber(number)
}

// maskPhone shows a number to who knows it already.
func maskPhone(number string) string {
	if len(number) < 4 {
		return ""
	}
	return "•••\u00a0" + number[len(number)-3:]
}

// textNumber returns the number that text messages for a person go to: a verified one, the primary first. "" when there is none.
func textNumber(p *Profile) string {
	found := ""
	for _, n := range p.PhoneNumbers {
		if number, ok := parsePhone(n.Value); ok && n.Verified && (found == "" || n.Primary) {
			found = number
		}
	}
	return found
}

// text returns the message that is sent to a number of a person.
func (t told) text(kind notify.Kind, to string, now time.Time) notify.SMS {
	m := notify.SMS{Kind: kind, To: to, PersonID: t.id, At: now, Data: map[string]string{}}
	if t.profile.PreferredLocale != "" {
		m.Locales = []string{t.profile.PreferredLocale}
	}
	return m
}

// textCode sends a code by text message, unless it has nowhere to go.
func (s *Service) textCode(tx storage.Tx, t told, kind notify.Kind, to, code string, now time.Time) error {
	if to == "" {
		return nil
	}
	m := t.text(kind, to, now)
	m.Data["code"], m.Until = code, now.Add(sentCodeLife)
	return s.SMS.Send(tx, m)
}
