// A step with an unknown outcome: its worker died, and it must not be carried out twice, so an operator decides.

import { h } from '../../lib/h.js';
import { at } from '../../lib/api.js';
import { action } from '../../lib/act.js';
import { choice, field } from '../../lib/dialog.js';

const CHOICES = [['done', 'It was done, with this result'], ['rerun', 'It was not done: run it now'], ['fail', 'It counts as failed']];

export function decision(run, step, then) {
  const verdict = choice(CHOICES, 'done', { name: 'verdict' });
  const result = h('textarea', { class: 'input', name: 'result', spellcheck: 'false' });
  result.value = 'null';
  const error = h('input', { class: 'input', name: 'error', value: 'declared as failed by an operator' });
  const [resultField, errorField] = [field('Result', result, 'JSON: what the step would have returned.'), field('Error', error)];
  const shown = () => { resultField.hidden = verdict.value !== 'done'; errorField.hidden = verdict.value !== 'fail'; };
  verdict.addEventListener('input', shown);
  shown();
  return action({
    label: 'Decide', kind: 'primary', title: `Outcome of “${step}”`, then,
    what: `The worker of the run “${run}” died during the step “${step}”. Check whether the step had its effect, then choose the outcome; the run continues from there.`,
    fields: [field('Verdict', verdict), resultField, errorField],
    request: () => ({ method: 'POST', path: at`runs/${run}/resolve`, body: { step, ...said(verdict.value, result.value, error.value) } }),
    done: () => `Done: the run “${run}” continues; “${step}” counts as ${verdict.value === 'rerun' ? 'not done' : verdict.value === 'done' ? 'done' : 'failed'}.`,
  });
}

function said(verdict, result, error) {
  if (verdict === 'rerun') return { verdict };
  return verdict === 'done' ? { verdict, result: json(result) } : { verdict, error };
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the result is not JSON: ${error.message}`);
  }
}
