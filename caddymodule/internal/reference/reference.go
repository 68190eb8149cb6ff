// Package reference lists the Caddyfile blocks and options of Gatehouse, each with its meaning, default and an example.
// Parsers accept only what it lists, messages about unknown words name it, and docs/caddyfile is generated from it.
package reference

import "slices"

// Block is a directive or a block, and the options that stand in it.
type Block struct {
	// Head is the line that opens it, with its arguments, such as "client <id>".
	Head string
	// Open is the same line with values. Empty: it is Head.
	Open string
	// Text says what the block is for.
	Text string
	// Needs are lines that an example of this block cannot do without.
	Needs string
	// Sample are the lines of the block's own example. Empty: Needs, or without any the examples of all options.
	Sample string
	// Around are lines that an example of this block needs in the block around it.
	Around string
	// Bare is set if the block can stand without braces and options.
	Bare    bool
	Options []Option
	// Instead says of words that the block does not have, and that operators look for, what to write.
	Instead map[string]string
}

// Option is one word of a block.
type Option struct {
	Word string
	// Arguments are the arguments after the word. Empty: nothing, or what the blocks say.
	Arguments string
	// Text says what the option does.
	Text string
	// Default is the value without it. Empty: nothing.
	Default string
	// Example is a line with the option, or several where it cannot stand alone. Empty: that of its blocks.
	Example string
	// Instead replaces the Needs of the block in the example. "-" stands for none.
	Instead string
	// Around are lines that the example needs in the block around its own.
	Around string
	// Since is the first version that has the option. Empty: 0.1.
	Since string
	// Repeats allows the option more than once.
	Repeats bool
	// Later is set for an option that is known and not supported yet.
	Later bool
	// Blocks are the blocks that the option opens.
	Blocks []*Block
}

// Words are the options of the block that can be used.
func (b *Block) Words() []string {
	var out []string
	for _, o := range b.Options {
		if !o.Later {
			out = append(out, o.Word)
		}
	}
	slices.Sort(out)
	return out
}

// Option returns an option by its word, or nil.
func (b *Block) Option(word string) *Option {
	for i := range b.Options {
		if b.Options[i].Word == word {
			return &b.Options[i]
		}
	}
	return nil
}

// Opens reports whether a word of the global block opens a block.
func Opens(word string) bool {
	o := Gatehouse.Option(word)
	return o != nil && len(o.Blocks) > 0
}
