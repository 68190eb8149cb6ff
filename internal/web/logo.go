package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// LogoKind says who has a picture. It begins the names of the files.
type LogoKind string

// The owners of pictures.
const (
	ClientLogo   LogoKind = "app"
	ProviderLogo LogoKind = "idp"
)

// Logo describes a picture that is not in the configuration.
type Logo struct {
	// Name is that of its file: it begins with the LogoKey of the owner and changes with the picture.
	Name          string
	Type          string // media type
	Width, Height int    // pixels
}

// LogoFile is the content of a Logo.
type LogoFile struct {
	Name, Type string
	Content    []byte
}

// Logos has the pictures that are not in the configuration. logo implements it.
type Logos interface {
	// ClientLogo returns the picture of one application, or nil.
	ClientLogo(ctx context.Context, id string) (*Logo, error)
	// ProviderLogos returns the pictures of all identity providers by their ids. They must not be changed.
	ProviderLogos(ctx context.Context) (map[string]*Logo, error)
	// LogoFile returns the file of a LogoKey.
	LogoFile(ctx context.Context, key string) (LogoFile, bool, error)
}

// LogoKey returns the key of an owner in the paths of pictures. It does not reveal the id.
func LogoKey(kind LogoKind, id string) string {
	sum := sha256.Sum256([]byte(id))
	return string(kind) + hex.EncodeToString(sum[:16])
}

// isLogo reports whether LogoKey can have returned a key.
func isLogo(key string) bool {
	return slices.ContainsFunc([]LogoKind{ClientLogo, ProviderLogo}, func(kind LogoKind) bool {
		raw, found := strings.CutPrefix(key, string(kind))
		sum, err := hex.DecodeString(raw)
		return found && err == nil && len(sum) == 16
	})
}

// NewLogo describes a picture. Errors are those of CheckPicture.
func NewLogo(kind LogoKind, id string, raw []byte) (Logo, error) {
	p, err := checkPicture(raw)
	if err != nil {
		return Logo{}, err
	}
	sum := sha256.Sum256(raw)
	name := LogoKey(kind, id) + "-" + hex.EncodeToString(sum[:6]) + "." + strings.TrimPrefix(p.kind, "image/")
	return Logo{Name: name, Type: p.kind, Width: p.width, Height: p.height}, nil
}

// Image returns the picture as pages show it. nil: none
func (l *Logo) Image() *Image {
	if l == nil {
		return nil
	}
	return picture{l.Type, l.Width, l.Height}.size("/assets/"+l.Name, logoHeight)
}

// SetLogos sets where the pictures are that are not in the configuration. Call SetLogos before the renderer is used, if
// at all.
func (p *Renderer) SetLogos(from Logos) { p.logos = from }

// DeclaredLogo returns the picture of an owner in the configuration. nil: none
func (p *Renderer) DeclaredLogo(kind LogoKind, id string) *Image { return p.assets.logos[kind][id] }

// ClientLogo returns the picture of an application. nil: none
func (p *Renderer) ClientLogo(ctx context.Context, id string) *Image {
	if declared := p.DeclaredLogo(ClientLogo, id); declared != nil || p.logos == nil || id == "" {
		return declared
	}
	l, err := p.logos.ClientLogo(ctx, id)
	if err != nil { // the page is more important
		p.cfg.Log.Error("logo not read", zap.Error(err))
		return nil
	}
	return l.Image()
}

// ProviderLogos returns the pictures of all identity providers by their ids.
func (p *Renderer) ProviderLogos(ctx context.Context) map[string]*Image {
	declared := p.assets.logos[ProviderLogo]
	if p.logos == nil {
		return declared
	}
	stored, err := p.logos.ProviderLogos(ctx)
	if err != nil { // likewise
		p.cfg.Log.Error("logos not read", zap.Error(err))
	}
	if err != nil || len(stored) == 0 {
		return declared
	}
	out := map[string]*Image{}
	for id, l := range stored {
		out[id] = l.Image()
	}
	maps.Copy(out, declared)
	return out
}

func (p *Renderer) logoFile(ctx context.Context, key string) (file, bool, error) {
	if p.logos == nil {
		return file{}, false, nil
	}
	f, found, err := p.logos.LogoFile(ctx, key)
	return file{name: f.Name, contentType: f.Type, body: f.Content}, found, err
}
