package settings

import (
	"context"
	"maps"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

type seenKey struct{}

// Seen returns the context of a request that has read these units: its page is made with them and reads none again.
func Seen(ctx context.Context, u *Units) context.Context {
	return context.WithValue(ctx, seenKey{}, u)
}

// ofPage returns the units with which a page is made.
func (s *Service) ofPage(ctx context.Context) (*Units, error) {
	if u, ok := ctx.Value(seenKey{}).(*Units); ok {
		return u, nil
	}
	return s.Current(ctx)
}

// derived keeps a value that pages read of the units. It is made once for each state of them.
type derived[T any] struct{ last atomic.Pointer[made[T]] }

type made[T any] struct {
	of    *Units
	value T
}

// ofPage returns the value for the units with which a page is made. With an error it returns the last one.
func (d *derived[T]) ofPage(ctx context.Context, s *Service, from func(u *Units) (T, error)) (value T, err error) {
	known := d.last.Load()
	if known != nil {
		value = known.value
	}
	u, err := s.ofPage(ctx)
	if err != nil || known != nil && known.of == u {
		return value, err
	}
	next, err := from(u)
	if err != nil {
		return value, err
	}
	d.last.Store(&made[T]{u, next})
	return next, nil
}

// Overrides returns the messages that replace the built-in ones, the strongest first: custom_messages, then messages.
// It returns the same pointers while nothing changes. When storage cannot be read it returns the last ones, since a
// page that reports the failure needs them too.
func (s *Service) Overrides(ctx context.Context) []*web.Overrides {
	layers, err := s.shown.ofPage(ctx, s, func(u *Units) ([]*web.Overrides, error) {
		return []*web.Overrides{
			{Default: u.CustomMessages.Default, Locales: plain(u.CustomMessages.Locales)}, {Locales: plain(u.Messages)},
		}, nil
	})
	if err != nil {
		s.log.Debug("custom messages not read", zap.Error(err))
	}
	return layers
}

// plain returns the translations by their locales, as maps of strings.
func plain[M ~map[string]Translations](in M) map[string]map[string]string {
	out := make(map[string]map[string]string, len(in))
	for locale, texts := range in {
		out[locale] = texts
	}
	return out
}

// DefaultMessages is the locale of the messages for every language.
const DefaultMessages = "default"

// settingMessages returns what creates or replaces messages of a locale, and the part of the units that an error is
// about.
func settingMessages(locale string, in Translations) (apply func(u *Units) error, part string, err error) {
	if locale != DefaultMessages && kind.All["locale"].Check(locale) != nil {
		return nil, "", invalid("", coded.New("locale", "the locale must be one such as nl, nl_NL or nl_NL_informal, or default"))
	}
	part = "custom_messages.default"
	if locale != DefaultMessages {
		part = "custom_messages.locales." + shown(locale)
	}
	return func(u *Units) error {
		if len(in) == 0 {
			return nil
		}
		into := u.CustomMessages.Default
		if locale != DefaultMessages {
			if into = u.CustomMessages.Locales[locale]; into == nil {
				into = Translations{}
				u.CustomMessages.Locales[locale] = into
			}
		}
		maps.Copy(into, in)
		return nil
	}, part, nil
}

// removingMessage returns what removes a message of a locale.
func removingMessage(locale, key string) func(u *Units) error {
	return func(u *Units) error {
		from := u.CustomMessages.Default
		if locale != DefaultMessages {
			from = u.CustomMessages.Locales[locale]
		}
		if _, ok := from[key]; !ok {
			return jsonapi.NotFound()
		}
		delete(from, key)
		if locale != DefaultMessages && len(from) == 0 {
			delete(u.CustomMessages.Locales, locale)
		}
		return nil
	}
}

// CustomMessages returns the messages that administrators have set, and the entity tag of their unit.
func (s *Service) CustomMessages(ctx context.Context) (*CustomMessages, string, error) {
	st, err := s.current(ctx)
	if err != nil {
		return nil, "", err
	}
	return &st.units.CustomMessages, unitView(unitNamed("custom_messages")).version(st), nil
}

// SetMessage creates or replaces a message of a locale, as the configuration API does, in a unit that had this entity
// tag when it was read.
func (s *Service) SetMessage(ctx context.Context, locale, key, text, tag string, by audit.Actor) error {
	apply, part, err := settingMessages(locale, Translations{key: text})
	if err == nil {
		err = within(s.editMessages(ctx, apply, tag, by), part)
	}
	return err
}

// RemoveMessage removes a message of a locale, so the built-in one is shown again.
func (s *Service) RemoveMessage(ctx context.Context, locale, key, tag string, by audit.Actor) error {
	return s.editMessages(ctx, removingMessage(locale, key), tag, by)
}

func (s *Service) editMessages(ctx context.Context, apply func(u *Units) error, tag string, by audit.Actor) error {
	v := unitView(unitNamed("custom_messages"))
	_, err := s.update(ctx, edit{by: by, apply: apply, match: func(st *state) bool { return v.version(st) == tag }})
	return err
}
