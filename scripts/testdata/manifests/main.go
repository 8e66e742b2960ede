// Command manifests validates Kubernetes objects like an API server: custom resources by the schemas and rules of
// their definitions, others by the types of k8s.io/api, in which unknown fields are faults. It lists the kinds
// without a definition. It is a separate module, to keep its requirements out of Gearshift's.
//
//	go run . -crds DIR,FILE,... FILE...
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	group "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

func main() {
	crds := flag.String("crds", "", "folders and files of custom resource definitions, with commas between")
	flag.Parse()
	if err := run(strings.Split(*crds, ","), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(crds, files []string) error {
	k, err := load(crds)
	if err != nil {
		return err
	}
	var faults []error
	for _, file := range files {
		err := each(file, func(text []byte) error { return k.validate(text) })
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
		}
	}
	for kind := range k.unknown {
		fmt.Println("not validated, as no definition is at hand:", kind)
	}
	fmt.Println(k.validated, "objects are valid")
	return errors.Join(faults...)
}

// each calls f with each document of a file of YAML.
func each(file string, f func([]byte) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var faults []error
	for r := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		part := make([]byte, len(text)+1)
		n, err := r.Read(part)
		if errors.Is(err, io.EOF) {
			return errors.Join(faults...)
		}
		if err != nil {
			return err
		}
		if json, err := yaml.ToJSON(part[:n]); err != nil {
			faults = append(faults, err)
		} else if string(json) != "null" {
			faults = append(faults, f(json))
		}
	}
}

// known holds the definitions that objects are validated by.
type known struct {
	custom    map[group.GroupVersionKind]*definition
	decoder   runtime.Decoder
	unknown   map[string]bool
	validated int
}

type definition struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

func load(crds []string) (*known, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	k := &known{
		custom: map[group.GroupVersionKind]*definition{}, unknown: map[string]bool{},
		decoder: serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
	}
	for _, root := range crds {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			return each(path, k.define)
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// define adds a custom resource definition, and ignores other objects.
func (k *known) define(text []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil || crd.Kind != "CustomResourceDefinition" {
		return nil
	}
	for _, version := range crd.Spec.Versions {
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return err
		}
		d := &definition{}
		var err error
		if d.structural, err = schema.NewStructural(&internal); err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
		if d.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
			return fmt.Errorf("%s: %w", crd.Name, err)
		}
		d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
		k.custom[group.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = d
	}
	return nil
}

func (k *known) validate(text []byte) error {
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON(text); err != nil {
		return err
	}
	kind := o.GroupVersionKind()
	d := k.custom[kind]
	if d == nil {
		_, _, err := k.decoder.Decode(text, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			k.unknown[kind.String()] = true
			return nil
		case err != nil:
			return fmt.Errorf("%s %s: %w", kind.Kind, o.GetName(), err)
		}
		k.validated++
		return nil
	}
	var faults []error
	whole := o.DeepCopy().Object
	for _, path := range pruning.PruneWithOptions(whole, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		faults = append(faults, fmt.Errorf("%s %s: %s: unknown field", kind.Kind, o.GetName(), path))
	}
	defaulting.Default(whole, d.structural)
	found := validation.ValidateCustomResource(nil, whole, d.validator)
	broken, _ := d.rules.Validate(context.Background(), field.NewPath("root"), d.structural, whole, nil, celconfig.RuntimeCELCostBudget)
	for _, fault := range append(found, broken...) {
		faults = append(faults, fmt.Errorf("%s %s: %w", kind.Kind, o.GetName(), fault))
	}
	if len(faults) == 0 {
		k.validated++
	}
	return errors.Join(faults...)
}
