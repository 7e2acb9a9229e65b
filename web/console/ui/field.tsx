/** Fields of forms: label above, help below, the error beside the field that it is about. */

import type { ComponentChildren, JSX, RefObject } from "preact";
import { useId } from "preact/hooks";

/** What a control needs so that label, help and error belong to it. */
export interface ControlProps {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": boolean | undefined;
}

export interface FieldProps {
  readonly label: string;
  readonly help?: ComponentChildren;
  readonly error?: string | null | undefined;
  readonly hideLabel?: boolean | undefined;
  readonly class?: string | undefined;
}

/** Draws a label and what belongs to a control; `children` draws the control. */
export function Field(
  props: FieldProps & { readonly children: (control: ControlProps) => ComponentChildren },
): JSX.Element {
  const id = useId();
  const help = props.help ? `${id}-help` : "";
  const error = props.error ? `${id}-error` : "";
  const described = [help, error].filter(Boolean).join(" ") || undefined;
  return (
    <div class={`field ${props.class ?? ""}`}>
      <label for={id} class={props.hideLabel ? "visually-hidden" : undefined}>
        {props.label}
      </label>
      {props.children({ id, "aria-describedby": described, "aria-invalid": props.error ? true : undefined })}
      {props.help && (
        <p class="help" id={help}>
          {props.help}
        </p>
      )}
      {props.error && (
        <p class="field-error" id={error} role="alert">
          {props.error}
        </p>
      )}
    </div>
  );
}

export interface TextFieldProps extends FieldProps {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly type?: "text" | "password" | "search" | "number" | "datetime-local" | undefined;
  readonly placeholder?: string | undefined;
  readonly autocomplete?: string | undefined;
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  readonly step?: number | undefined;
  readonly mono?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  readonly autofocus?: boolean | undefined;
  readonly inputRef?: RefObject<HTMLInputElement> | undefined;
}

/** Draws a field of one line of text. */
export function TextField(props: TextFieldProps): JSX.Element {
  return (
    <Field {...props}>
      {(control) => (
        <input
          {...control}
          ref={props.inputRef ?? null}
          // The types of attributes depend on this value; these inputs use none of the differing ones.
          type={(props.type ?? "text") as "text"}
          value={props.value}
          class={props.mono ? "mono" : undefined}
          placeholder={props.placeholder}
          autocomplete={props.autocomplete ?? "off"}
          spellcheck={false}
          min={props.min}
          max={props.max}
          step={props.step}
          disabled={props.disabled}
          autofocus={props.autofocus}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export interface SelectFieldProps<T extends string> extends FieldProps {
  readonly value: T;
  readonly options: readonly (readonly [value: T, text: string])[];
  readonly onChange: (value: T) => void;
  readonly disabled?: boolean | undefined;
}

/** Draws a choice of one of a few values. */
export function SelectField<T extends string>(props: SelectFieldProps<T>): JSX.Element {
  return (
    <Field {...props}>
      {(control) => (
        <select
          {...control}
          value={props.value}
          disabled={props.disabled}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export interface CheckFieldProps {
  readonly label: ComponentChildren;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly help?: ComponentChildren;
  readonly disabled?: boolean | undefined;
}

/** Draws a box to tick, its label at the right. */
export function CheckField(props: CheckFieldProps): JSX.Element {
  const id = useId();
  return (
    <div class="field check">
      <label>
        <input
          type="checkbox"
          checked={props.checked}
          disabled={props.disabled}
          aria-describedby={props.help ? id : undefined}
          onChange={(event) => props.onChange(event.currentTarget.checked)}
        />
        <span>{props.label}</span>
      </label>
      {props.help && (
        <p class="help" id={id}>
          {props.help}
        </p>
      )}
    </div>
  );
}

export interface RadioFieldProps<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly (readonly [value: T, text: ComponentChildren])[];
  readonly onChange: (value: T) => void;
}

/** Draws a choice whose values are all visible. */
export function RadioField<T extends string>(props: RadioFieldProps<T>): JSX.Element {
  const name = useId();
  return (
    <fieldset class="field radio">
      <legend>{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            checked={props.value === value}
            onChange={() => props.onChange(value)}
          />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}
