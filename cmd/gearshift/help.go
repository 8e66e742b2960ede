package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/scenario"
)

// groups are what the commands are listed under.
var groups = []cobra.Group{
	{ID: "start", Title: "Start:"},
	{ID: "operate", Title: "Operate:"},
	{ID: "measure", Title: "Measure:"},
	{ID: "research", Title: "Research:"},
}

// listed says where a command stands in the help, and how it is called.
var listed = map[string]struct {
	group string
	// example is a line without "gearshift ", or several.
	example string
	// also are other words that are meant by it.
	also []string
}{
	"init":      {group: "start", also: []string{"setup", "discover"}},
	"scenario":  {group: "start", example: "scenario show titan-rtx-opt > mine.yaml\nscenario check mine.yaml"},
	"calibrate": {group: "start", example: "calibrate --scenario mine.yaml --dir walk\ncalibrate --scenario tiny --dir walk --preset quick --measure-time 15s"},
	"train":     {group: "start", example: "train --scenario mine.yaml --preset quick --name mine\ntrain --scenario mine.yaml --name mine --resume", also: []string{"learn"}},

	"serve":   {group: "operate", example: "serve --scenario mine.yaml\nserve --scenario mine.yaml --policy mine --addr :8080", also: []string{"start", "run", "server"}},
	"policy":  {group: "operate", example: "policy ls\npolicy promote mine", also: []string{"policies"}},
	"store":   {group: "operate", example: "store verify", also: []string{"db"}},
	"key":     {group: "operate", example: "key new alice --rate 5 --keys gearshift.keys", also: []string{"keys"}},
	"lease":   {group: "operate", example: "lease ls", also: []string{"leases"}},
	"replica": {group: "operate", example: "replica ls\nreplica unload opt-6.7b@gpu0 --wait", also: []string{"replicas"}},

	"eval":     {group: "measure", example: "eval --scenario mine.yaml --policy mine --policy slackfit --workload u1 --seeds 10", also: []string{"evaluate", "compare"}},
	"replay":   {group: "measure", example: "replay --url http://127.0.0.1:8080 --trace mine.jsonl --duration 1m", also: []string{"load"}},
	"profile":  {group: "measure", example: "profile measure --url http://127.0.0.1:8000/v1 --out small.yaml", also: []string{"measure"}},
	"validate": {group: "measure", example: "validate --scenario mine.yaml"},
	"workload": {group: "measure", example: "workload stat u1 --scenario mine.yaml", also: []string{"trace", "workloads"}},

	"bound":  {group: "research", example: "bound --scenario tiny"},
	"paper":  {group: "research", example: "paper --out report"},
	"models": {group: "research", example: "models make --out models"},
	"engine": {group: "start", example: "engine --scenario tiny --addr 127.0.0.1:8101", also: []string{"simulate"}},

	"version": {example: "version"},

	"scenario ls": {example: "scenario ls"}, "scenario show": {example: "scenario show tiny > mine.yaml"},
	"scenario upstreams": {example: "scenario upstreams tiny --at http://10.0.0.1:8000 > mine.yaml"},
	"scenario profiles":  {example: "scenario profiles mine.yaml --from small.yaml --from large.yaml > measured.yaml"},
	"policy ls":          {example: "policy ls"}, "policy show": {example: "policy show mine"}, "policy promote": {example: "policy promote mine\npolicy promote slackfit:0.93"},
	"policy rollback": {example: "policy rollback mine"}, "policy rm": {example: "policy rm mine@1"},
	"policy shadow": {example: "policy shadow mine"}, "policy canary": {example: "policy canary mine --share 0.1"}, "policy status": {example: "policy status"},
	"policy keygen": {example: "policy keygen signing.pem"}, "policy sign": {example: "policy sign mine.onnx --key signing.pem"},
	"policy export": {example: "policy export mine --onnx mine.onnx"}, "policy import": {example: "policy import mine.onnx --name mine"},
	"key new": {example: "key new alice --rate 5 --keys gearshift.keys"}, "key ls": {example: "key ls --keys gearshift.keys"}, "key rm": {example: "key rm alice --keys gearshift.keys"},
	"workload gen": {example: "workload gen u1 --out u1.jsonl"}, "workload stat": {example: "workload stat u1"},
	"profile fit": {example: "profile fit --requests requests.jsonl"}, "profile measure": {example: "profile measure --url http://127.0.0.1:8000/v1 --out small.yaml"},
	"profile gpu": {example: "profile gpu gpu-out/table.jsonl --out gpu-out"},
	"models make": {example: "models make --out models"},
}

// arrange puts the commands into groups, and gives each an example that has none.
func arrange(root *cobra.Command) {
	for i := range groups {
		root.AddGroup(&groups[i])
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			path := strings.TrimPrefix(sub.CommandPath(), root.Name()+" ")
			at := listed[path]
			if c == root && !sub.Hidden {
				sub.GroupID = at.group
			}
			if sub.Example == "" && at.example != "" {
				sub.Example = "  gearshift " + strings.ReplaceAll(at.example, "\n", "\n  gearshift ")
			}
			sub.SuggestFor = append(sub.SuggestFor, at.also...)
			sub.Long = wrap(sub.Long)
			walk(sub)
		}
	}
	walk(root)
	root.SetUsageTemplate(narrow(root.UsageTemplate()))
	root.SetHelpCommand(helpCommand())
}

// helpWidth is the most columns of a line of help.
const helpWidth = 100

// narrow changes cobra's template: flags are wrapped, and a group of commands, which does
// nothing without one of them, has no line of usage of its own.
func narrow(template string) string {
	template = strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth))
	return strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
}

// wrap breaks the lines of a text that are too long at spaces. What follows stands below
// the text after a "Word:", if the line begins with one.
func wrap(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if word, rest, ok := strings.Cut(line, ": "); ok && indent == "" && !strings.Contains(word, " ") {
			indent = strings.Repeat(" ", len(line)-len(strings.TrimLeft(rest, " ")))
		}
		for utf8.RuneCountInString(line) > helpWidth {
			at := strings.LastIndexByte(string([]rune(line)[:helpWidth+1]), ' ')
			if at <= len(indent) {
				break
			}
			out = append(out, line[:at])
			line = indent + line[at+1:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// helpCommand is cobra's, but that it fails for a command that is not there.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && of.HasSubCommands() {
				return noSubcommand(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// missingFlags says which of the flags that a command requires were not given.
func missingFlags(c *cobra.Command) error {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required && !f.Changed {
			value, _ := pflag.UnquoteUsage(f)
			names = append(names, strings.TrimSpace("--"+f.Name+" "+value))
		}
	})
	if len(names) == 0 {
		return nil
	}
	be := "is"
	if len(names) > 1 {
		be = "are"
	}
	return fmt.Errorf("%s %s missing; see %s --help", strings.Join(names, " and "), be, c.CommandPath())
}

// flagValues are what the flags of a type take, where the parser's own words are of the
// library that it uses.
var flagValues = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, not negative", "uint": "a whole number, not negative",
	"float64": "a number, such as 0.5", "duration": "a time with its unit, such as 30s or 5m", "bool": "true or false",
	"intSlice": "whole numbers, such as 1,2,4",
}

// flagFault ends what is wrong with a flag with what was meant, and where flags are.
func flagFault(c *cobra.Command, err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant := scenario.Closest(name, names); meant != "" {
			return fmt.Errorf("%w; did you mean --%s? See %s --help", err, meant, c.CommandPath())
		}
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		if want := flagValues[invalid.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %q: want %s; see %s --help", invalid.GetFlag().Name, invalid.GetValue(), want, c.CommandPath())
		}
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// meant is the command that a word stands for, to be put into a message; "" if none is.
func meant(c *cobra.Command, word string, names []string) string {
	name := scenario.Closest(word, names)
	for _, sub := range c.Commands() {
		for _, other := range sub.SuggestFor {
			if strings.EqualFold(other, word) {
				name = sub.Name()
			}
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q? There", name)
}
