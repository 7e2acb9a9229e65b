/** The settings: theme, rows on a page, the bound on what a query may cost. Each applies at once. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { session } from "../../api/client.ts";
import { PAGE_SIZES, settings, type Settings } from "../../settings.ts";
import { useStore } from "../../store.ts";
import { chooseTheme, theme as currentTheme } from "../../theme-choice.ts";
import type { Theme } from "../../theme.ts";
import { CheckField, RadioField, SelectField, TextField } from "../../ui/field.tsx";
import { count } from "../../ui/format.ts";

const DEFAULT_LIMIT = 5_000;

/** Draws the page. */
export default function SettingsPage(): JSX.Element {
  const current = useStore(settings);
  const account = useStore(session);
  const change = (part: Partial<Settings>): void => settings.update((before) => ({ ...before, ...part }));
  return (
    <>
      <div class="page-head">
        <h1>Settings</h1>
      </div>
      <div class="settings-list">
        <ThemeField />
        <SelectField
          label="Items and rows on a page"
          value={String(current.pageSize)}
          options={PAGE_SIZES.map((size) => [String(size), count(size)] as const)}
          help="The server may return fewer, because a page also ends at its size limit."
          onChange={(size) => change({ pageSize: Number(size) })}
        />
        <LimitField value={current.queryRuLimit} onChange={(queryRuLimit) => change({ queryRuLimit })} />
        <section class="stack">
          <h2>This console</h2>
          <dl class="settings-about">
            <dt>Version</dt>
            <dd>{account?.version}</dd>
            <dt>Rights</dt>
            <dd>{account?.readOnly ? "read only, as the server was started" : "read and change everything"}</dd>
          </dl>
          <p class="soft">Settings stay in this browser. The server keeps none of them.</p>
        </section>
      </div>
    </>
  );
}

const THEMES = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;

function ThemeField(): JSX.Element {
  const theme = useStore(currentTheme);
  return <RadioField<Theme> label="Theme" value={theme} options={THEMES} onChange={chooseTheme} />;
}

interface LimitFieldProps {
  readonly value: number;
  readonly onChange: (value: number) => void;
}

/** The limit while a person types; only a valid number is kept. */
function LimitField({ value, onChange }: LimitFieldProps): JSX.Element {
  const [text, setText] = useState(String(value === 0 ? DEFAULT_LIMIT : value));
  const isOn = value > 0;
  const typed = Number(text);
  const isValid = Number.isFinite(typed) && typed >= 1;
  const type = (next: string): void => {
    setText(next);
    const amount = Number(next);
    if (Number.isFinite(amount) && amount >= 1) onChange(amount);
  };
  return (
    <div class="stack">
      <CheckField
        label="Stop a query that becomes expensive"
        checked={isOn}
        onChange={(isChecked) => onChange(isChecked ? (isValid ? typed : DEFAULT_LIMIT) : 0)}
        help="The pages of a query are added up. At the limit the query stops and asks before it reads on."
      />
      {isOn && (
        <TextField
          label="Limit in RU"
          type="number"
          min={1}
          value={text}
          onInput={type}
          error={isValid ? null : `Type a number of at least 1. The limit is still ${count(value)} RU.`}
        />
      )}
    </div>
  );
}
