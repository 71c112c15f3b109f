// Package docs reads the commands out of the written pages, for the tests that judge and run them. It has no part in the product.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Page is one written page.
type Page struct {
	Path   string // from the root of the tree, with slashes
	Blocks []Block
	Spans  []Span // what stands in the text between backquotes
}

// Block is a fenced block. What stands behind its fence is its language and then either run=SCENE, the scene of the
// end-to-end test that types it, or norun: and one of the Reasons. on=HOST names the scene's machine that it is typed on.
type Block struct {
	Page  string
	Line  int // of the fence
	Lang  string
	Scene string
	On    string
	NoRun string
	Lines []string
}

// Span is a piece of code in the text.
type Span struct {
	Page string
	Line int
	Text string // line ends are blanks
}

// Where is for a message.
func (b Block) Where() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Languages are those of blocks, and whether such a block is typed.
var Languages = map[string]bool{
	"sh": true, "console": true, "bat": true, "powershell": true, // a console block shows prompts, and answers between them
	"text": false, "json": false, "yaml": false, "ini": false, "go": false, "xml": false,
}

// Typed says whether the block is commands. One that begins with #! is a file, which the reader keeps.
func (b Block) Typed() bool {
	return Languages[b.Lang] && (len(b.Lines) == 0 || !strings.HasPrefix(b.Lines[0], "#!"))
}

// Fault says what is missing behind the fence, "" where nothing is: who types the block, or why nobody does.
func (b Block) Fault() string {
	switch {
	case !b.Typed() && (b.Scene != "" || b.NoRun != ""):
		return "nobody types such a block: leave run= and norun: out"
	case !b.Typed():
		return ""
	case b.Scene == "" && b.NoRun == "":
		return "write run=SCENE behind the fence, or norun: REASON (docs.Scenes, docs.Reasons)"
	case b.Scene != "" && b.NoRun != "":
		return "run= and norun: exclude one another"
	case b.Scene != "" && Scenes[b.Scene] == "":
		return "docs.Scenes has no " + b.Scene
	case b.NoRun != "" && Reasons[b.NoRun] == "" && !strings.HasPrefix(b.NoRun, "typed by Test"):
		return "docs.Reasons has no " + b.NoRun
	}
	return ""
}

// prompt begins a command of a console block.
const prompt = "$ "

// skipped are folders without pages of ours.
var skipped = []string{".git", "build", "dist", "testdata", "node_modules"}

// Read reads every page below root. Errors name the page and the line.
func Read(root string) ([]Page, error) {
	var out []Page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skipped, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		page, err := Parse(filepath.ToSlash(rel), string(text))
		out = append(out, page)
		return err
	})
	return out, err
}

// Parse reads one page.
func Parse(path, text string) (Page, error) {
	page := Page{Path: path}
	const fence = "```"
	var block *Block
	var prose strings.Builder // with a line for each line of the page, so that spans know theirs
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		info, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), fence)
		switch {
		case isFence && block != nil:
			page.Blocks = append(page.Blocks, *block)
			block = nil
		case isFence:
			b, err := opening(path, i+1, info)
			if err != nil {
				return page, err
			}
			block = &b
		case block != nil:
			block.Lines = append(block.Lines, line)
		default:
			prose.WriteString(line)
		}
		prose.WriteByte('\n')
	}
	if block != nil {
		return page, fmt.Errorf("%s: the block is never closed", block.Where())
	}
	page.Spans = spans(path, prose.String())
	return page, nil
}

func opening(path string, line int, info string) (Block, error) {
	b := Block{Page: path, Line: line}
	info, b.NoRun, _ = strings.Cut(info, " norun:")
	b.NoRun = strings.TrimSpace(b.NoRun)
	words := strings.Fields(info)
	if len(words) == 0 {
		return b, fmt.Errorf("%s: the block has no language: write ```sh, ```console or ```text", b.Where())
	}
	b.Lang = words[0]
	if _, known := Languages[b.Lang]; !known {
		return b, fmt.Errorf("%s: a block of %q is not known to docs.Languages", b.Where(), b.Lang)
	}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch {
		case name == "run" && value != "":
			b.Scene = value
		case name == "on" && value != "":
			b.On = value
		default:
			return b, fmt.Errorf("%s: %q is neither run=SCENE, on=HOST nor norun: REASON", b.Where(), w)
		}
	}
	return b, nil
}

// spans finds what stands between single backquotes, within a paragraph.
func spans(path, prose string) []Span {
	var out []Span
	line := 1
	for _, paragraph := range strings.SplitAfter(prose, "\n\n") {
		parts := strings.Split(paragraph, "`")
		at := line
		for i, part := range parts {
			if i%2 == 1 && i+1 < len(parts) {
				out = append(out, Span{path, at, strings.Join(strings.Fields(part), " ")})
			}
			at += strings.Count(part, "\n")
		}
		line += strings.Count(paragraph, "\n")
	}
	return out
}

// Typing is one thing that a block has somebody type: a line, or several where one goes on in the next.
type Typing struct {
	Line   int // of the page
	Text   string
	Answer []string // of a console block: what follows it there
}

// Typings are a block's, without comments that stand alone.
func (b Block) Typings() []Typing {
	var out []Typing
	prompts := b.Lang == "console"
	var until string // the end of a here document
	var open bool    // the last one goes on
	for i, line := range b.Lines {
		switch {
		case open:
			last := &out[len(out)-1]
			last.Text += "\n" + line
		case prompts && !strings.HasPrefix(line, prompt):
			if len(out) > 0 {
				last := &out[len(out)-1]
				last.Answer = append(last.Answer, line)
			}
			continue
		default:
			line = strings.TrimPrefix(line, prompt)
			if word := strings.TrimSpace(line); word == "" || word[0] == '#' || strings.HasPrefix(word, "rem ") {
				continue
			}
			out = append(out, Typing{Line: b.Line + 1 + i, Text: line})
		}
		if until == "" {
			until = hereDocument(line)
		} else if line == until {
			until = ""
		}
		open = until != "" || strings.HasSuffix(line, `\`) && b.Lang != "bat"
	}
	return out
}

// hereDocument is the word that ends the one which a line begins, or "".
func hereDocument(line string) string {
	_, word, found := strings.Cut(line, "<<")
	if !found || strings.HasPrefix(word, "<") {
		return ""
	}
	word = strings.TrimLeft(word, "-")
	if end := strings.IndexAny(word, " ;|&"); end >= 0 {
		word = word[:end]
	}
	return strings.Trim(word, `'"`)
}
