package person

import (
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Is reports whether the stored number is the same as a number in international form.
func (n *PhoneNumber) Is(number string) bool {
	own, ok := ParsePhone(n.Value)
	return ok && own == number
}

// SentCodeLife is the validity of a sent code.
const SentCodeLife = 10 * time.Minute

// SendsTexts reports whether text messages are configured and switched on.
func (s *Service) SendsTexts(u *settings.Units) bool {
	return s.deps.SMS != nil && u.Features.SMSEnabled
}

// ParsePhone returns a phone number in the form that text messages are sent to (ITU-T E.164). The number must have the
// code of its country, after + or 00: without it the country is unknown.
func ParsePhone(typed string) (number string, ok bool) {
	typed = strings.TrimPrefix(strings.TrimSpace(typed), "tel:")
	if len(typed) > MaxTag {
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

// MaskPhone shortens a number so that only its owner recognises it.
func MaskPhone(number string) string {
	if len(number) < 4 {
		return ""
	}
	return "•••\u00a0" + number[len(number)-3:]
}

// TextNumber returns the number for text messages to a person: a verified one, preferably the primary. "" if there is
// no verified number.
func TextNumber(p *Profile) string {
	found := ""
	for _, n := range p.PhoneNumbers {
		if number, ok := ParsePhone(n.Value); ok && n.Verified && (found == "" || n.Primary) {
			found = number
		}
	}
	return found
}

// Text returns a message to a number of the recipient.
func (t Recipient) Text(kind notify.Kind, to string, now time.Time) notify.SMS {
	m := notify.SMS{Kind: kind, To: to, PersonID: t.ID, At: now, Data: map[string]string{}}
	if t.Profile.PreferredLocale != "" {
		m.Locales = []string{t.Profile.PreferredLocale}
	}
	return m
}

// TextCode sends a code by text message if there is a number.
func (s *Service) TextCode(tx storage.Tx, t Recipient, kind notify.Kind, to, code string, now time.Time) error {
	if to == "" {
		return nil
	}
	m := t.Text(kind, to, now)
	m.Data["code"], m.Until = code, now.Add(SentCodeLife)
	return s.deps.SMS.Send(tx, m)
}

// MaskEmail shortens an address so that only its owner recognises it.
func MaskEmail(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return ""
	}
	first := []rune(address[:at])[0]
	return string(first) + "•••" + address[at:]
}
